package headrace.mapreduce;

import headrace.client.Residency;
import headrace.client.Settings;
import headrace.locality.LocalityInputs;
import headrace.locality.ResidentShares;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.ToIntFunction;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapreduce.JobID;
import org.apache.hadoop.mapreduce.MRJobConfig;
import org.apache.hadoop.mapreduce.TypeConverter;
import org.apache.hadoop.mapreduce.v2.api.records.JobId;
import org.apache.hadoop.mapreduce.v2.api.records.TaskAttemptId;
import org.apache.hadoop.mapreduce.v2.api.records.TaskType;
import org.apache.hadoop.mapreduce.v2.app.AppContext;
import org.apache.hadoop.mapreduce.v2.app.job.event.JobCounterUpdateEvent;
import org.apache.hadoop.mapreduce.v2.app.rm.RMContainerAllocator;
import org.apache.hadoop.service.Service;
import org.apache.hadoop.service.ServiceStateChangeListener;
import org.apache.hadoop.yarn.api.ApplicationMasterProtocol;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateResponse;
import org.apache.hadoop.yarn.api.records.Container;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Stands between the allocator of an application master and YARN. When containers come, and before the allocator takes
 * maps for them, it puts these into order ({@link MapOrder}): in the allocator's thread, which holds its lock then. Nothing
 * is asked or waited for there: what is in memory others have published before.
 *
 * <p>Whatever fails is counted, and leaves the job in MapReduce's own order from then on.
 */
final class MapLocality implements ServiceStateChangeListener {
    private static final Logger LOG = LoggerFactory.getLogger(MapLocality.class);

    private final AppContext context;
    private final JobId job;
    private final MapInputs inputs;
    private final LocalityInputs locality;
    private final boolean early;
    /** Set before the allocator knows of this. */
    private RMContainerAllocator allocator;
    private AllocatorRequests requests;

    // The rest is guarded by the allocator's lock.
    private final Map<MapMemory, Long> counts = new EnumMap<>(MapMemory.class);
    /** Containers that came last, whose maps are to be counted, and what was known then. */
    private List<Container> came = List.of();
    private ResidentShares known;
    private final Map<String, Integer> machineOf = new HashMap<>();
    private boolean[] useful = new boolean[0];
    private long nanos;
    private long longest;

    /**
     * Asks what is in memory of the job's input, unless it may run in its master: by the first container that is known, if
     * all goes well.
     */
    MapLocality(AppContext context, Configuration conf, Residency.Starter residency) {
        this.context = context;
        JobID id = TypeConverter.fromYarn(context.getApplicationID());
        this.job = TypeConverter.toYarn(id);
        this.inputs = new MapInputs(id, new org.apache.hadoop.fs.Path(conf.get(MRJobConfig.MAPREDUCE_JOB_DIR)), conf);
        Path socket = Settings.socket(conf);
        String application = context.getApplicationID().toString();
        this.locality = new LocalityInputs(conf, changed -> residency.start(socket, application, changed));
        this.early = !conf.getBoolean(MRJobConfig.JOB_UBERTASK_ENABLE, false);
        if (early) {
            locality.query(inputs::files);
        }
    }

    /** What is in memory of each map's input; null: that is not known yet. */
    ResidentShares shares() {
        return inputs.shares();
    }

    /** Whether maps are put into order by now. */
    boolean orders() {
        return knows(inputs.shares());
    }

    /** The master has started its allocator, and has not asked it for any container yet; or has stopped it. */
    @Override
    public void stateChanged(Service service) {
        try {
            if (service.isInState(Service.STATE.STARTED)) {
                start(AllocatorRequests.of(service));
            } else if (service.isInState(Service.STATE.STOPPED)) {
                end();
            }
        } catch (ReflectiveOperationException | RuntimeException | LinkageError e) {
            LOG.warn("Maps start in MapReduce's own order, whatever is in memory", e);
            close();
        }
    }

    /** @param of null: the job runs in its master, which takes no containers */
    private void start(RMContainerAllocator of) throws ReflectiveOperationException {
        if (of == null) {
            close();
            return;
        }
        synchronized (of) {
            allocator = of;
            requests = new AllocatorRequests(of);
            requests.between(this::proxy);
        }
        if (!early) {
            locality.query(inputs::files);
        }
        locality.add(inputs);
    }

    private ApplicationMasterProtocol proxy(ApplicationMasterProtocol stock) {
        return (ApplicationMasterProtocol) Proxy.newProxyInstance(getClass().getClassLoader(),
            new Class<?>[] {ApplicationMasterProtocol.class}, (proxy, method, arguments) -> call(stock, method, arguments));
    }

    private Object call(ApplicationMasterProtocol stock, Method method, Object[] arguments) throws Throwable {
        boolean own = method.getName().equals("allocate") && Thread.holdsLock(allocator);
        if (own) {
            safely(this::count);
        }
        Object answer;
        try {
            answer = method.invoke(stock, arguments);
        } catch (InvocationTargetException e) {
            throw e.getCause();
        }
        if (own && answer instanceof AllocateResponse) {
            long began = System.nanoTime();
            safely(() -> order(((AllocateResponse) answer).getAllocatedContainers()));
            long took = System.nanoTime() - began;
            nanos += took;
            longest = Math.max(longest, took);
        }
        return answer;
    }

    /** The allocator must not fail because of this. */
    private void safely(Runnable step) {
        if (inputs.over()) {
            return;
        }
        try {
            step.run();
        } catch (Throwable e) {
            inputs.end();
            locality.doubt(e);
            tell(Map.of(MapMemory.MEMORY_DOUBTS, 1L));
        }
    }

    private void order(List<Container> containers) {
        came = List.of();
        if (containers.isEmpty()) {
            return;
        }
        learn(inputs.shares());
        came = new ArrayList<>(containers);
        List<MapOrder.Place> places = new ArrayList<>();
        for (Container container : containers) {
            String host = container.getNodeId().getHost();
            if (requests.forMaps(container.getPriority()) && !requests.blacklisted(host)) { // else it is given back
                places.add(new MapOrder.Place(host, requests.local(container.getPriority())));
            }
        }
        if (!places.isEmpty() && knows(known)) {
            requests.maps().arrange(places, this::order);
        }
    }

    private void learn(ResidentShares now) {
        if (now != known) {
            if (now.tasks() != context.getJob(job).getTotalMaps()) {
                throw new IllegalStateException(now.tasks() + " splits are not those of " + job);
            }
            known = now;
            machineOf.clear();
            useful = new boolean[now.machines().size()];
        }
        for (int machine = 0; machine < useful.length; machine++) {
            useful[machine] = true;
            for (String host : now.machines().get(machine)) {
                machineOf.put(host, machine);
                useful[machine] &= !requests.blacklisted(host);
            }
        }
    }

    /** Whether it is known what is in memory, also where nothing is: the job begins in its own place then. */
    private boolean knows(ResidentShares now) {
        return now != null && (!now.isEmpty() || locality.residency().heard());
    }

    private ToIntFunction<TaskAttemptId> order(String host) {
        ToIntFunction<TaskAttemptId> ranks = ranks(host);
        return map -> 2 * ranks.applyAsInt(map) + (inputs.early(map.getTaskId().getId()) ? 1 : 0);
    }

    private ToIntFunction<TaskAttemptId> ranks(String host) {
        int here = machineOf.getOrDefault(host, -1);
        return map -> known.rank(map.getTaskId().getId(), here, useful);
    }

    /** Counts the maps that were given the containers which came last. */
    private void count() {
        Map<MapMemory, Long> more = new EnumMap<>(MapMemory.class);
        for (Container container : came) {
            TaskAttemptId attempt = requests.in(container.getId());
            if (attempt != null && attempt.getTaskId().getTaskType() == TaskType.MAP) {
                int rank = known == null ? 0 : ranks(container.getNodeId().getHost()).applyAsInt(attempt);
                more.merge(rank > 0 ? MapMemory.MEMORY_LOCAL_MAPS
                    : rank < 0 ? MapMemory.MEMORY_ELSEWHERE_MAPS : MapMemory.NOT_IN_MEMORY_MAPS, 1L, Long::sum);
            }
        }
        came = List.of();
        tell(more);
    }

    /** Has the job count. Does not wait. */
    @SuppressWarnings("unchecked")
    private void tell(Map<MapMemory, Long> more) {
        if (more.isEmpty()) {
            return;
        }
        JobCounterUpdateEvent event = new JobCounterUpdateEvent(job);
        more.forEach((what, n) -> {
            counts.merge(what, n, Long::sum);
            event.addCounterUpdate(what, n);
        });
        context.getEventHandler().handle(event);
    }

    private void close() {
        inputs.end();
        locality.close();
    }

    private void end() {
        close();
        if (allocator == null) {
            return;
        }
        synchronized (allocator) {
            LOG.info("Maps by what was in memory when they started: {}; putting them into order took {} µs, at most {} at a"
                + " time; in vain it was asked {} times, and {} times something was not found out", counts, nanos / 1000,
                longest / 1000, locality.residency().failed(), locality.doubts());
        }
    }
}
