package headrace.mapreduce;

import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.LinkedList;
import java.util.Map;
import java.util.function.UnaryOperator;
import org.apache.hadoop.mapreduce.v2.api.records.TaskAttemptId;
import org.apache.hadoop.mapreduce.v2.app.rm.RMContainerAllocator;
import org.apache.hadoop.service.Service;
import org.apache.hadoop.yarn.api.ApplicationMasterProtocol;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.util.RackResolver;

/**
 * Reaches what the allocator of an application master has of requests and containers, in fields that are not public.
 * Whoever uses it holds the lock of the allocator, as all of its own methods do that use them.
 */
final class AllocatorRequests {
    private final RMContainerAllocator allocator;
    private final MapOrder maps;
    private final Map<ContainerId, TaskAttemptId> assigned;
    private final Priority map;
    private final Priority opportunisticMap;
    private final Method isNodeBlacklisted;

    /** @throws ReflectiveOperationException or ClassCastException when that of this Hadoop is another one */
    @SuppressWarnings("unchecked")
    AllocatorRequests(RMContainerAllocator allocator) throws ReflectiveOperationException {
        this.allocator = allocator;
        Object scheduled = get(allocator, "scheduledRequests");
        LinkedHashMap<TaskAttemptId, Object> waiting =
            LinkedHashMap.class.cast(get(scheduled, "maps")); // whose order is that in which they came
        maps = new MapOrder((Map<String, LinkedList<TaskAttemptId>>) get(scheduled, "mapsHostMapping"),
            (Map<String, LinkedList<TaskAttemptId>>) get(scheduled, "mapsRackMapping"), waiting,
            (Collection<TaskAttemptId>) get(scheduled, "earlierFailedMaps"),
            host -> RackResolver.resolve(host).getNetworkLocation()); // which keeps what it has resolved
        assigned = (Map<ContainerId, TaskAttemptId>) get(get(allocator, "assignedRequests"), "containerToAttemptMap");
        map = (Priority) get(allocator, "PRIORITY_MAP");
        opportunisticMap = (Priority) get(allocator, "PRIORITY_OPPORTUNISTIC_MAP");
        isNodeBlacklisted = method(allocator.getClass(), "isNodeBlacklisted", String.class);
    }

    /** Returns the allocator that a service is, or hands everything to; null: there is none, as the job runs in its master. */
    static RMContainerAllocator of(Service service) throws ReflectiveOperationException {
        Object allocator = service instanceof RMContainerAllocator ? service : get(service, "containerAllocator");
        return allocator instanceof RMContainerAllocator ? (RMContainerAllocator) allocator : null;
    }

    /** Maps that wait. */
    MapOrder maps() {
        return maps;
    }

    /** The attempt that has a container; null: there is none. */
    TaskAttemptId in(ContainerId container) {
        return assigned.get(container);
    }

    /** Whether a container of that priority is for maps that have not failed before. */
    boolean forMaps(Priority priority) {
        return map.equals(priority) || opportunisticMap.equals(priority);
    }

    /** Whether containers of that priority are for maps that run near their input. */
    boolean local(Priority priority) {
        return map.equals(priority);
    }

    /** Whether the job uses no containers of a host, because too many of its tasks have failed there. */
    boolean blacklisted(String host) {
        try {
            return (boolean) isNodeBlacklisted.invoke(allocator, host);
        } catch (IllegalAccessException | InvocationTargetException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Has something stand between the allocator and YARN's ResourceManager. */
    void between(UnaryOperator<ApplicationMasterProtocol> wrap) throws ReflectiveOperationException {
        Field scheduler = field(allocator.getClass(), "scheduler");
        scheduler.set(allocator, wrap.apply((ApplicationMasterProtocol) scheduler.get(allocator)));
    }

    private static Object get(Object of, String name) throws ReflectiveOperationException {
        return field(of.getClass(), name).get(of);
    }

    private static Field field(Class<?> of, String name) throws NoSuchFieldException {
        for (Class<?> c = of; c != null; c = c.getSuperclass()) {
            for (Field field : c.getDeclaredFields()) {
                if (field.getName().equals(name)) {
                    field.setAccessible(true);
                    return field;
                }
            }
        }
        throw new NoSuchFieldException(of.getName() + "." + name);
    }

    private static Method method(Class<?> of, String name, Class<?>... takes) throws NoSuchMethodException {
        for (Class<?> c = of; c != null; c = c.getSuperclass()) {
            for (Method method : c.getDeclaredMethods()) {
                if (method.getName().equals(name) && Arrays.equals(method.getParameterTypes(), takes)) {
                    method.setAccessible(true);
                    return method;
                }
            }
        }
        throw new NoSuchMethodException(of.getName() + "." + name);
    }
}
