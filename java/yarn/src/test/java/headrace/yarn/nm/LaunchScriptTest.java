package headrace.yarn.nm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.nodemanager.DefaultContainerExecutor;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** The scripts are those that Hadoop's own executor writes, and are run by bash. */
class LaunchScriptTest {
    private static final List<String> NASTY = List.of("a b", "it's", "$HOME", "\\", "\\\\n", "\"", "`id`", "$(id)", "*",
        "", "a\nb", "!x", "~", "#", "\u00fc", "'", "''", ";", "&", "-c");

    @TempDir
    Path dir;

    static Stream<List<String>> commands() {
        return Stream.of(
            List.of("printf", "'%s\\n'", "one", "two"),
            List.of("printf '%s|' $WHO \\\"$WHO\\\" '$WHO' \\$WHO \\\\\\$WHO"),
            List.of("A=1 B='x y'", "env", "|", "grep -E '^[AB]='", "|", "sort"),
            List.of("echo \\\"a  b\\\"", "$(echo c  d)", "`echo e`", "{x,y}", "*"),
            List.of("echo a\\\\b 'c\\d' \\\"e\\\\\\\\f\\\""),
            List.of("echo first\necho second"),
            List.of("echo out; echo err 1>&2; exit 3"),
            List.of("echo x\nexec /bin/bash -c \\\"echo y\\\""),
            List.of("cat /dev/null; echo \u00e4\u00f6\u00fc"),
            List.of("echo $# \\\"$@\\\" $0 $1; exit $#"),
            List.of("kill -9 \\$\\$"));
    }

    private String stock(List<String> command) throws IOException {
        DefaultContainerExecutor executor = new DefaultContainerExecutor();
        executor.setConf(new YarnConfiguration());
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        Fakes.writeScript(executor, out, Fakes.environment(Fakes.containerId(2)), command, dir);
        return out.toString(StandardCharsets.UTF_8);
    }

    private record Ran(int code, String out, String err) {
    }

    /** Runs a script, which redirects its output to files in the directory. */
    private Ran run(String script) throws Exception {
        Files.createDirectories(dir.resolve("cwd"));
        Files.writeString(dir.resolve("cwd/file1"), "");
        Files.writeString(dir.resolve("cwd/launch_container.sh"), script);
        int code = Fakes.bash(dir.resolve("cwd"), "launch_container.sh");
        return new Ran(code, Files.readString(dir.resolve("prelaunch.out")),
            Files.readString(dir.resolve("prelaunch.err")));
    }

    private Path program(String body) throws IOException {
        Path program = dir.resolve("my shim");
        Files.writeString(program, "#!/bin/bash\n" + body);
        assertTrue(program.toFile().setExecutable(true));
        return program;
    }

    @ParameterizedTest
    @MethodSource("commands")
    void doesWhatTheStockScriptDoes(List<String> command) throws Exception {
        String script = stock(command);
        Path shim = program("while [ \"$1\" != -- ]; do shift; done; shift; exec \"$@\"\n");
        List<String> prefix = List.of(shim.toString(), "attach", "-id", "it's \"$WHO\"", "--");
        String wrapped = LaunchScript.withPrefix(script, command, prefix).orElseThrow();
        Ran expected = run(script);
        assertTrue(expected.out().contains("Launching container\n"), expected.err());
        assertEquals(expected, run(wrapped));
    }

    @ParameterizedTest
    @MethodSource("commands")
    void doesWhatTheStockScriptDoesWhenTheProgramHasGone(List<String> command) throws Exception {
        String script = stock(command);
        List<String> prefix = List.of(dir.resolve("my shim").toString(), "attach", "--");
        assertEquals(run(script), run(LaunchScript.withPrefix(script, command, prefix).orElseThrow()));
    }

    @ParameterizedTest
    @MethodSource("commands")
    void passesArgumentsAsTheyAre(List<String> command) throws Exception {
        String script = stock(command);
        Path shim = program("printf '%s\\0' \"$@\" > '" + dir.resolve("seen") + "'\n");
        List<String> prefix = Stream.concat(Stream.of(shim.toString()), NASTY.stream()).toList();
        Ran ran = run(LaunchScript.withPrefix(script, command, prefix).orElseThrow());
        assertEquals(0, ran.code(), ran.err());
        List<String> seen = List.of(Files.readString(dir.resolve("seen")).split("\0"));
        assertEquals(NASTY, seen.subList(0, NASTY.size()));
        assertEquals(List.of("/bin/bash", "-c"), seen.subList(NASTY.size(), NASTY.size() + 2));
        assertEquals(NASTY.size() + 3, seen.size());
    }

    @Test
    void changesOnlyTheEnd() throws Exception {
        List<String> command = List.of("echo", "x");
        String script = stock(command);
        String last = "exec /bin/bash -c \"echo x\"\n";
        assertTrue(script.endsWith("\n" + last), script);
        assertEquals(script.substring(0, script.length() - last.length())
                + "headrace=('/opt/shim' 'it'\\''s')\n"
                + "[ -x \"${headrace[0]}\" ] || headrace=()\n"
                + "exec \"${headrace[@]}\" /bin/bash -c \"echo x\"\n",
            LaunchScript.withPrefix(script, command, List.of("/opt/shim", "it's")).orElseThrow());
    }

    @Test
    void leavesUnknownScriptsAlone() throws Exception {
        List<String> command = List.of("echo", "x");
        String script = stock(command);
        List<String> prefix = List.of("shim");
        assertEquals(Optional.empty(), LaunchScript.withPrefix(script + "true\n", command, prefix));
        assertEquals(Optional.empty(), LaunchScript.withPrefix(script, List.of("echo", "y"), prefix));
        assertEquals(Optional.empty(), LaunchScript.withPrefix(script.replace("exec /bin", "/bin"), command, prefix));
        assertEquals(Optional.empty(), LaunchScript.withPrefix("", command, prefix));
    }
}
