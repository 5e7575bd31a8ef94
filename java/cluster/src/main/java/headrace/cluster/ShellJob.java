package headrace.cluster;

import java.util.HashMap;
import java.util.Map;

/**
 * What to run.
 *
 * @param name for people
 * @param queue of the capacity scheduler
 * @param priority of the application inside its queue
 * @param tasks how many containers, each with the variable HEADRACE_TASK, from 0
 * @param memory of one container in MB
 * @param vcores of one container
 * @param command a line for bash
 */
record ShellJob(String name, String queue, int priority, int tasks, int memory, int vcores, String command) {

  /** Reads arguments of the form {@code --name value}. */
  static ShellJob parse(String[] args) {
    Map<String, String> given = new HashMap<>();
    for (int i = 0; i + 1 < args.length; i += 2) {
      given.put(args[i], args[i + 1]);
    }
    String command = given.get("--command");
    if (args.length % 2 != 0 || command == null) {
      throw new IllegalArgumentException("usage: ShellMaster --command LINE [--name NAME] [--queue QUEUE]"
          + " [--priority N] [--tasks N] [--memory MB] [--vcores N]");
    }
    return new ShellJob(given.getOrDefault("--name", "shell"), given.getOrDefault("--queue", "default"),
        number(given, "--priority", 0), number(given, "--tasks", 1), number(given, "--memory", 128),
        number(given, "--vcores", 1), command);
  }

  private static int number(Map<String, String> given, String name, int otherwise) {
    String text = given.get(name);
    return text == null ? otherwise : Integer.parseInt(text);
  }
}
