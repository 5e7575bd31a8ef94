package headrace.yarn.nm;

import java.util.List;

/** The arguments of a process, when its program may be headrace-shim. */
record ShimArguments(List<String> arguments) {

    /** Whether it is this part of headrace-shim: attach, attached, init, exec and others. */
    boolean isPart(String part) {
        if (arguments.size() < 2) {
            return false;
        }
        String program = arguments.get(0);
        return program.substring(program.lastIndexOf('/') + 1).startsWith("headrace-shim")
            && arguments.get(1).equals(part);
    }

    /**
     * Whether the process stands for a container:
     * {@code headrace-shim attached -shim-pid PID ...}, for a moment at its start {@code headrace-shim attach ...}.
     */
    boolean standsForContainer() {
        return isPart("attached") || isPart("attach");
    }

    /** The pid of that container's supervisor; empty as long as there is none. */
    String supervisor() {
        int at = arguments.indexOf("-shim-pid");
        boolean known = isPart("attached") && at > 0 && at + 1 < arguments.size();
        return known ? arguments.get(at + 1) : "";
    }
}
