package headrace.mapreduce;

import headrace.client.Residency;
import headrace.locality.LocalityInputs;
import org.apache.hadoop.mapreduce.v2.app.AppContext;
import org.apache.hadoop.service.Service;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Set as {@code yarn.app.mapreduce.am.preemption.policy}, it has an application master give a container the map whose input
 * is in memory there, and does all that {@link KeepAlivePolicy} does: preemption itself is left to the policy that is named
 * for that one, too.
 */
public final class MemoryLocalityPolicy extends KeepAlivePolicy {
    private static final Logger LOG = LoggerFactory.getLogger(MemoryLocalityPolicy.class);

    private final Residency.Starter residency;
    private MapLocality locality;

    /** As an application master makes it. */
    public MemoryLocalityPolicy() {
        this(Residency::start);
    }

    MemoryLocalityPolicy(Residency.Starter residency) {
        this.residency = residency;
    }

    /** Null: there is none. */
    MapLocality locality() {
        return locality;
    }

    @Override
    public void init(AppContext context) {
        super.init(context);
        if (!getConf().getBoolean(LocalityInputs.WANTED, true)) {
            return;
        }
        try {
            Service allocator = (Service) Attempts.master(context).getContainerAllocator();
            locality = new MapLocality(context, getConf(), residency);
            allocator.registerServiceListener(locality);
        } catch (RuntimeException | LinkageError e) {
            LOG.warn("Maps start in MapReduce's own order, whatever is in memory", e);
        }
    }
}
