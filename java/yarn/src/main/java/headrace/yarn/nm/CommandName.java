package headrace.yarn.nm;

import java.util.List;
import java.util.Set;

/** A short name for the command of a container, for people. */
final class CommandName {
    private static final Set<String> WITH_VALUE = Set.of("-cp", "-classpath", "--class-path", "-p", "--module-path",
        "--add-opens", "--add-exports", "--add-modules", "-m", "--module");
    private static final int LONGEST = 50;

    private CommandName() {
    }

    /** The program's file name; of Java the main class, or the jar. Never empty, no control characters. */
    static String of(List<String> command) {
        String[] words = String.join(" ", command).trim().split("\\s+");
        int first = 0;
        while (first < words.length - 1 && words[first].matches("[A-Za-z_][A-Za-z0-9_]*=.*")) {
            first++;
        }
        String program = file(words[first]);
        String name = printable(program.equals("java") ? mainClass(words, first + 1, program) : program);
        return name.isEmpty() ? "container" : name;
    }

    private static String printable(String name) {
        return name.codePoints()
            .filter(c -> !Character.isISOControl(c) && Character.getType(c) != Character.SURROGATE)
            .limit(LONGEST)
            .collect(StringBuilder::new, StringBuilder::appendCodePoint, StringBuilder::append)
            .toString();
    }

    private static String mainClass(String[] words, int from, String otherwise) {
        for (int i = from; i < words.length; i++) {
            String word = plain(words[i]);
            if (word.equals("-jar") && i + 1 < words.length) {
                return file(words[i + 1]);
            }
            if (WITH_VALUE.contains(word)) {
                i++;
            } else if (!closed(words[i])) {
                while (i + 1 < words.length && closed(words[i + 1])) {
                    i++;
                }
                i++; // an option in quotes, such as -XX:OnOutOfMemoryError='kill %p'
            } else if (!word.startsWith("-")) {
                return word.substring(word.lastIndexOf('.') + 1);
            }
        }
        return otherwise;
    }

    /** Whether each kind of quotes in a word is closed in it. */
    private static boolean closed(String word) {
        String bare = word.replaceAll("\\\\[\"']", "");
        return bare.chars().filter(c -> c == '\'').count() % 2 == 0 && bare.chars().filter(c -> c == '"').count() % 2 == 0;
    }

    private static String file(String word) {
        String path = plain(word);
        return path.substring(path.lastIndexOf('/') + 1);
    }

    private static String plain(String word) {
        return word.replaceAll("[\"'\\\\;&|()]", "");
    }
}
