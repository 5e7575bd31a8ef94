package headrace.yarn.nm;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import org.junit.jupiter.api.Test;
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
        "java -server '-Da=b' -XX:OnOutOfMemoryError='kill %p' o.s.YarnBackend --id 1              | YarnBackend",
        "java '-Da=b c d' -Xmx1g \"-De=f g\" a.Main x                                              | Main",
        "java -XX:OnOutOfMemoryError='kill                                                        | java",
        "\"$SHELL\" script.sh                                                                     | $SHELL",
        "(while true; do :; done)                                                                 | while",
        "id; pwd                                                                                  | id",
        "/                                                                                        | container",
        "A=1                                                                                      | A=1",
    })
    void names(String command, String name) {
        assertEquals(name, CommandName.of(List.of(command)));
    }

    @ParameterizedTest
    @CsvSource({"50,50", "51,50", "5000,50"})
    void isShort(int length, int kept) {
        assertEquals(kept, CommandName.of(List.of("x".repeat(length))).length());
    }

    @Test
    void namesNothing() {
        assertEquals("container", CommandName.of(List.of()));
        assertEquals("container", CommandName.of(List.of("", " ")));
        assertEquals("container", CommandName.of(List.of("\u0001\u0085\ud800")));
    }

    @Test
    void isPrintable() {
        assertEquals("abc", CommandName.of(List.of("a\u0001b\u0085c\ud83d")));
        assertEquals("\ud83d\ude00".repeat(50), CommandName.of(List.of("\ud83d\ude00".repeat(70))));
    }
}
