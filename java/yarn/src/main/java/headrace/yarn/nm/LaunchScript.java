package headrace.yarn.nm;

import java.util.List;
import java.util.Optional;

/** The script that the NodeManager writes for a container. Its last line executes the container's command. */
final class LaunchScript {
    private LaunchScript() {
    }

    /**
     * Puts a command before the one that the script executes, which becomes its last arguments. All else stays as it
     * is, so that variables are expanded by the same shell at the same moment.
     *
     * @param command the container's command, as it was given to the NodeManager's executor
     * @param prefix program and arguments, not empty, no null bytes
     * @return empty when the script does not end as expected
     */
    static Optional<String> withPrefix(String script, List<String> command, List<String> prefix) {
        String run = "/bin/bash -c \"" + String.join(" ", command) + "\"\n";
        String last = "exec " + run;
        if (!script.endsWith("\n" + last)) {
            return Optional.empty();
        }
        StringBuilder wrapped = new StringBuilder(script);
        wrapped.setLength(script.length() - last.length());
        wrapped.append("exec ");
        for (String argument : prefix) {
            wrapped.append(quoted(argument)).append(' ');
        }
        return Optional.of(wrapped.append(run).toString());
    }

    private static String quoted(String argument) {
        return "'" + argument.replace("'", "'\\''") + "'";
    }
}
