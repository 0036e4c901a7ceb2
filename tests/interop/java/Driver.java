import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Kafka's own client, driven by lines: each on standard input is a number, a command and its arguments, with tabs
 * between them; each on standard output a number, a word and what belongs to it.  Every command has a thread of its own
 * and ends with one line "done" or "failed".  "stop" with the number of a command tells it to come to an end.
 */
public final class Driver {
    /** What a command says, and whether it was told to end. */
    static final class Call {
        private final String number;
        volatile boolean stopped;

        Call(String number) {
            this.number = number;
        }

        void say(Object... words) {
            StringBuilder line = new StringBuilder(number);
            for (Object word : words) {
                line.append('\t').append(String.valueOf(word).replace('\t', ' ').replace('\n', ' '));
            }
            synchronized (OUT) {
                OUT.println(line);
            }
        }
    }

    interface Command {
        void run(Call call, String[] arguments) throws Exception;
    }

    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private static final Map<String, Call> CALLS = new ConcurrentHashMap<>();

    /** The settings "name=value;name=value". */
    static Properties settings(String text) {
        Properties found = new Properties();
        for (String each : text.split(";")) {
            int at = each.indexOf('=');
            found.setProperty(each.substring(0, at), each.substring(at + 1));
        }
        return found;
    }

    /** Bytes as text without tabs; "-" is null. */
    static String text(byte[] bytes) {
        return bytes == null ? "-" : Base64.getEncoder().encodeToString(bytes);
    }

    static byte[] bytes(String text) {
        return text.equals("-") ? null : Base64.getDecoder().decode(text);
    }

    private static Command command(String name) {
        for (Map<String, Command> each : List.of(
            Records.COMMANDS, Administration.COMMANDS, Transactions.COMMANDS, Shares.COMMANDS)) {
            if (each.containsKey(name)) {
                return each.get(name);
            }
        }
        throw new IllegalArgumentException("no command " + name);
    }

    private static void serve(Call call, String name, String[] arguments) {
        try {
            command(name).run(call, arguments);
            call.say("done");
        } catch (Throwable failure) {
            Throwable cause = failure instanceof java.util.concurrent.ExecutionException ? failure.getCause() : failure;
            call.say("failed", cause.getClass().getSimpleName(), cause.getMessage());
        } finally {
            CALLS.remove(call.number);
        }
    }

    public static void main(String[] unused) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t", -1);
            if (words[1].equals("stop")) {
                Call told = CALLS.get(words[2]);
                if (told != null) {
                    told.stopped = true;
                }
                continue;
            }
            Call call = new Call(words[0]);
            CALLS.put(words[0], call);
            String[] arguments = java.util.Arrays.copyOfRange(words, 2, words.length);
            Thread thread = new Thread(() -> serve(call, words[1], arguments));
            thread.setDaemon(true);
            thread.start();
        }
        // Nobody is there any more who would read what the others say.
        System.exit(0);
    }
}
