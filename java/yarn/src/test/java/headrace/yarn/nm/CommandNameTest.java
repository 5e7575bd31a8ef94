package headrace.yarn.nm;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class CommandNameTest {
    @ParameterizedTest
    @CsvSource(delimiter = '|', quoteCharacter = '\0', ignoreLeadingAndTrailingWhitespace = true, value = {
        "/bin/sleep 10                                                                            | sleep",
        "$JAVA_HOME/bin/java -Xmx1g org.apache.hadoop.mapred.YarnChild 127.0.0.1 1 attempt_1 2    | YarnChild",
        "LD_LIBRARY_PATH=\\\"$X:y\\\" $JAVA_HOME/bin/java -server -cp a:b '-Dx=y' o.s.Backend --id 1 | Backend",
        "java -jar /x/app.jar a                                                                   | app.jar",
        "java --add-opens a/b=ALL-UNNAMED -version                                                | java",
        "\"$SHELL\" script.sh                                                                     | $SHELL",
        "(while true; do :; done)                                                                 | (while",
        "/                                                                                        | container",
        "A=1                                                                                      | A=1",
    })
    void names(String command, String name) {
        assertEquals(name, CommandName.of(List.of(command)));
    }

    @ParameterizedTest
    @CsvSource({"60,60", "61,60", "5000,60"})
    void isShort(int length, int kept) {
        assertEquals(kept, CommandName.of(List.of("x".repeat(length))).length());
    }

    @ParameterizedTest
    @CsvSource("container")
    void namesNothing(String name) {
        assertEquals(name, CommandName.of(List.of()));
        assertEquals(name, CommandName.of(List.of("", " ")));
    }
}
