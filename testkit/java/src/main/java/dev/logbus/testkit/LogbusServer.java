package dev.logbus.testkit;

import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.URI;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;

/**
 * A running logbus test server: a Kafka-compatible broker, or a cluster, for tests.
 *
 * <p>The command {@code logbus} must be on PATH; the environment variable {@code LOGBUS_COMMAND} names another, with
 * its arguments separated by blanks. The server ends with {@link #close}, and with this process, however that ends.
 */
public final class LogbusServer implements AutoCloseable {
    /** What a server is started with. */
    public static final class Options {
        private int brokers = 1;
        private String asVersion;
        private boolean ownProcess;
        private Duration startTimeout = Duration.ofMinutes(2);
        private final Map<String, String> settings = new TreeMap<>();

        /** How many brokers; more than one are a cluster. */
        public Options brokers(int count) {
            brokers = count;
            return this;
        }

        /** A setting of all brokers, by Kafka's name. */
        public Options set(String name, Object value) {
            settings.put(name, String.valueOf(value));
            return this;
        }

        /** A release of Kafka, such as "2.8", whose API versions the brokers have. */
        public Options asVersion(String release) {
            asVersion = release;
            return this;
        }

        /** Run each broker as a process of its own, which can be killed and frozen. */
        public Options ownProcess() {
            ownProcess = true;
            return this;
        }

        /** How long the start may take. */
        public Options startTimeout(Duration timeout) {
            startTimeout = timeout;
            return this;
        }
    }

    /** The direction of a cut, as seen by the broker that is cut off. */
    public enum Way {
        /** Connections are closed. */
        BOTH,
        /** Nothing that it says arrives; connections stay open, and hold it. */
        FROM,
        /** It hears nothing. */
        TO
    }

    private static final Duration STOP = Duration.ofMinutes(1);

    private final Process process;
    private final Path directory;
    private final Path errors;
    private Map<String, Object> told = Map.of();

    private LogbusServer(Process process, Path directory, Path errors) {
        this.process = process;
        this.directory = directory;
        this.errors = errors;
    }

    /**
     * Start a server, and wait until it serves clients.
     *
     * @throws IllegalStateException it did not start; the message says why
     */
    public static LogbusServer start(Options options) {
        try {
            Path directory = Files.createTempDirectory("logbus-testkit-");
            Path file = directory.resolve("server.json");
            Path errors = directory.resolve("stderr");
            List<String> command = new ArrayList<>(command());
            command.addAll(List.of("test-server", "--port-file", file.toString()));
            command.addAll(List.of("--brokers", String.valueOf(options.brokers)));
            if (options.asVersion != null) {
                command.addAll(List.of("--as-version", options.asVersion));
            }
            if (options.ownProcess) {
                command.add("--own-process");
            }
            options.settings.forEach((name, value) -> command.addAll(List.of("--set", name + "=" + value)));
            // The server ends when its standard input, a pipe, does.
            ProcessBuilder builder = new ProcessBuilder(command)
                    .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                    .redirectError(errors.toFile());
            Process process;
            try {
                process = builder.start();
            } catch (IOException e) {
                delete(directory);
                throw failed(e.getMessage() + "; install logbus, or set LOGBUS_COMMAND", e);
            }
            LogbusServer server = new LogbusServer(process, directory, errors);
            try {
                server.awaitReady(file, options.startTimeout);
            } catch (RuntimeException | IOException | InterruptedException e) {
                server.close();
                throw e;
            }
            return server;
        } catch (IOException e) {
            throw failed(e.toString(), e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw failed("the start was interrupted", e);
        }
    }

    private static List<String> command() {
        String given = System.getenv().getOrDefault("LOGBUS_COMMAND", "").trim();
        return given.isEmpty() ? List.of("logbus") : Arrays.asList(given.split("\\s+"));
    }

    private void awaitReady(Path file, Duration timeout) throws IOException, InterruptedException {
        long deadline = System.nanoTime() + timeout.toNanos();
        boolean over = false;
        while (!Files.exists(file)) {
            if (over) {
                throw failed("it ended: " + Files.readString(errors).trim(), null);
            }
            if (System.nanoTime() > deadline) {
                throw failed("it was not ready after " + timeout + ": " + Files.readString(errors).trim(), null);
            }
            over = process.waitFor(10, TimeUnit.MILLISECONDS);
        }
        told = Json.object(Files.readString(file));
        if (told.containsKey("error")) {
            throw failed(text("error"), null);
        }
    }

    /** HOST:PORT of all brokers, separated by commas: {@code bootstrap.servers}. */
    public String bootstrap() {
        return text("bootstrap");
    }

    /** The HTTP address of the first broker. */
    public String adminUrl() {
        return text("admin_url");
    }

    /** The address of its schema registry. */
    public String registryUrl() {
        return text("registry_url");
    }

    /** Have all brokers begin anew, empty, without faults and on the same addresses. */
    public void reset() {
        control("POST", "/server/reset", null);
    }

    /** Create a topic; with 0 the broker's default is meant. */
    public void createTopic(String name, int partitions, int replicationFactor) {
        Map<String, Object> topic = new TreeMap<>(Map.of("name", name));
        if (partitions > 0) {
            topic.put("partitions", partitions);
        }
        if (replicationFactor > 0) {
            topic.put("replication_factor", replicationFactor);
        }
        control("POST", "/topics", topic);
    }

    /** Delete a topic. */
    public void deleteTopic(String name) {
        control("DELETE", "/topics/" + name, null);
    }

    /**
     * Have something happen to the next requests of clients, such as {@code Map.of("action", "fail", "api", "Produce",
     * "error", "NOT_ENOUGH_REPLICAS", "times", 2)}.
     *
     * @return the number of the fault
     */
    public int addFault(Map<String, Object> rule) {
        return ((Number) control("POST", "/faults", rule).get("id")).intValue();
    }

    /** How often a fault has happened, once that is {@code hits} times, or after the timeout. */
    public int faultHits(int fault, int hits, Duration timeout) {
        String path = "/faults/" + fault + "?hits=" + hits + "&timeout=" + timeout.toSeconds();
        return ((Number) control("GET", path, null).get("hits")).intValue();
    }

    /** Remove all faults. */
    public void clearFaults() {
        control("DELETE", "/faults", null);
    }

    /** Stop a broker in order. */
    public void stopBroker(int id) {
        change(id, "stop");
    }

    /** Start a broker that does not run, on its address and data. */
    public void startBroker(int id) {
        change(id, "start");
    }

    /** Stop a broker in order, and start it. */
    public void restartBroker(int id) {
        change(id, "restart");
    }

    /** End a broker as a crash does: one of a cluster, or with {@link Options#ownProcess}. */
    public void killBroker(int id) {
        change(id, "kill");
    }

    /** Have a broker do nothing, with its connections open. It needs {@link Options#ownProcess}. */
    public void freezeBroker(int id) {
        change(id, "freeze");
    }

    /** End a freeze. */
    public void thawBroker(int id) {
        change(id, "thaw");
    }

    /**
     * Let nothing through between a broker of a cluster and others; clients still reach it.
     *
     * @param others numbers, or {@code "store"}, the metadata store; none: all of them
     */
    public void cutOff(int id, Object... others) {
        cutOff(id, Way.BOTH, others);
    }

    /** The same in one direction. One way, brokers can be cut off, and not the metadata store. */
    public void cutOff(int id, Way way, Object... others) {
        Map<String, Object> body = new TreeMap<>(Map.of("way", way.name().toLowerCase(Locale.ROOT)));
        if (others.length > 0) {
            body.put("others", List.of(others));
        }
        control("POST", "/brokers/" + id + "/cut-off", body);
    }

    /** End all cuts of a broker. */
    public void reconnect(int id) {
        change(id, "reconnect");
    }

    /** Have the metadata store end the session of a broker of a cluster. */
    public void expireSession(int id) {
        change(id, "expire-session");
    }

    /** Have a broker with a replica lead a partition. */
    public void moveLeader(String topic, int partition, int to) {
        control("POST", "/topics/" + topic + "/partitions/" + partition + "/move-leader", Map.of("to", to));
    }

    /**
     * Leave a transaction open, with a record in a partition.
     *
     * @return its transactional id
     */
    public String hangTransaction(String topic, int partition) {
        Map<String, Object> asked = Map.of("topic", topic, "partition", partition);
        return (String) control("POST", "/transactions", asked).get("transactional_id");
    }

    /** Have all members of a group of the classic protocol join again. */
    public void forceRebalance(String group) {
        control("POST", "/groups/" + escaped(group) + "/rebalance", null);
    }

    /** Abort the transaction of an id, and fence its producer: what that does next fails. */
    public void fenceProducer(String transactionalId) {
        control("POST", "/producers/" + escaped(transactionalId) + "/fence", null);
    }

    /** Let time pass for the brokers, without waiting. */
    public void advance(Duration time) {
        control("POST", "/time/advance", Map.of("seconds", time.toMillis() / 1000.0));
    }

    private static String escaped(String segment) {
        return URLEncoder.encode(segment, StandardCharsets.UTF_8).replace("+", "%20");
    }

    private void change(int id, String what) {
        control("POST", "/brokers/" + id + "/" + what, null);
    }

    /**
     * Send a request to the control interface: whatever has no method here.
     *
     * @param body sent as JSON: maps, lists, texts, numbers, booleans; null: none
     * @return the object that was answered; empty: none
     * @throws IllegalStateException it was refused; the message says why
     */
    public Map<String, Object> control(String method, String path, Map<String, ?> body) {
        if (!process.isAlive()) {
            throw failed(method + " " + path + ": the server has ended; start another one", null);
        }
        try {
            // Not java.net.http: its threads would outlive the tests of one server.
            HttpURLConnection connection =
                    (HttpURLConnection) URI.create(text("control_url") + path).toURL().openConnection();
            connection.setRequestMethod(method);
            connection.setRequestProperty("Authorization", "Bearer " + text("token"));
            if (body != null) {
                connection.setRequestProperty("Content-Type", "application/json");
                connection.setDoOutput(true);
                connection.getOutputStream().write(Json.text(body).getBytes(StandardCharsets.UTF_8));
            }
            int status = connection.getResponseCode();
            InputStream stream = status < 400 ? connection.getInputStream() : connection.getErrorStream();
            String text = stream == null ? "" : new String(stream.readAllBytes(), StandardCharsets.UTF_8);
            Map<String, Object> answer = text.isEmpty() ? Map.of() : Json.object(text);
            if (status >= 400) {
                throw failed(method + " " + path + ": " + status + ": " + answer.get("detail"), null);
            }
            return answer;
        } catch (IOException e) {
            throw failed(method + " " + path + ": " + e, e);
        }
    }

    /** End the server, and wait until nothing of it is left. */
    @Override
    public void close() {
        try {
            process.getOutputStream().close();
            if (!process.waitFor(STOP.toMillis(), TimeUnit.MILLISECONDS)) {
                process.destroyForcibly().waitFor();
                throw failed("it did not stop within " + STOP + ", and was killed", null);
            }
        } catch (IOException e) {
            throw failed(e.toString(), e);
        } catch (InterruptedException e) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        } finally {
            delete(directory);
        }
    }

    private String text(String member) {
        return (String) told.get(member);
    }

    private static IllegalStateException failed(String why, Exception cause) {
        return new IllegalStateException("logbus test server: " + why, cause);
    }

    private static void delete(Path directory) {
        for (String name : List.of("stderr", "server.json", "")) {
            try {
                Files.deleteIfExists(directory.resolve(name));
            } catch (IOException e) {
                // It is in the temporary directory, and empty or nearly so.
            }
        }
    }
}
