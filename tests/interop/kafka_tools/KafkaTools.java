import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's command line tools one after the other in one process. A line has the name of a tool's class, its input
 * and its arguments, separated by tabs, all but the name in base64; the answer is a line of the exit status, the output
 * and the errors.
 */
public final class KafkaTools {
    /** What the tool had printed when it ended, which handlers of exceptions may add to. */
    private record End(int status, byte[] out, byte[] err) {
        String line() {
            Base64.Encoder encoder = Base64.getEncoder();
            return status + "\t" + encoder.encodeToString(out) + "\t" + encoder.encodeToString(err);
        }
    }

    private static final class Ended extends Error {
        private Ended() {
            super("", null, false, false);
        }
    }

    public static void main(String[] none) throws Exception {
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Exit.setShutdownHookAdder((name, hook) -> { });
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            answers.println(run(line.split("\t", -1)).line());
        }
    }

    private static End run(String[] words) throws Exception {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        AtomicReference<End> end = new AtomicReference<>();
        Exit.Procedure procedure = (status, message) -> {
            System.out.flush();
            System.err.flush();
            end.compareAndSet(null, new End(status, out.toByteArray(), err.toByteArray()));
            throw new Ended();
        };
        Exit.setExitProcedure(procedure);
        Exit.setHaltProcedure(procedure);
        System.setIn(new ByteArrayInputStream(Base64.getDecoder().decode(words[1])));
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        String[] arguments = new String[words.length - 2];
        for (int i = 0; i < arguments.length; i++) {
            arguments[i] = new String(Base64.getDecoder().decode(words[i + 2]), StandardCharsets.UTF_8);
        }
        try {
            Class.forName(words[0]).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException wrapped) {
            if (end.get() == null) {
                wrapped.getCause().printStackTrace();
                end.set(new End(1, out.toByteArray(), err.toByteArray()));
            }
        }
        System.out.flush();
        end.compareAndSet(null, new End(0, out.toByteArray(), err.toByteArray()));
        return end.get();
    }
}
