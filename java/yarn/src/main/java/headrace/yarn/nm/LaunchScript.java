package headrace.yarn.nm;

import java.util.List;
import java.util.Optional;
import java.util.stream.Collectors;

/** The script that the NodeManager writes for a container. Its last line executes the container's command. */
final class LaunchScript {
    private LaunchScript() {
    }

    /**
     * Puts a command before the one that the script executes, which becomes its last arguments. All else stays as it
     * is, so that variables are expanded by the same shell at the same moment. Should the program not be there when the
     * script runs, which may be much later when a container is launched again, then the script does what it did.
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
        String arguments = prefix.stream().map(LaunchScript::quoted).collect(Collectors.joining(" "));
        return Optional.of(script.substring(0, script.length() - last.length())
            + "headrace=(" + arguments + ")\n"
            + "[ -x \"${headrace[0]}\" ] || headrace=()\n"
            + "exec \"${headrace[@]}\" " + run);
    }

    private static String quoted(String argument) {
        return "'" + argument.replace("'", "'\\''") + "'";
    }
}
