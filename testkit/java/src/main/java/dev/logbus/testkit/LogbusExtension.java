package dev.logbus.testkit;

import org.junit.jupiter.api.extension.AfterAllCallback;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;

/**
 * A logbus test server for the tests of a class: started before the first, and empty at the beginning of each.
 *
 * <pre>{@code
 * @RegisterExtension
 * static final LogbusExtension LOGBUS = new LogbusExtension(new LogbusServer.Options().set("num.partitions", 3));
 *
 * @Test
 * void orderArrives(LogbusServer server) { ... server.bootstrap() ... }
 * }</pre>
 *
 * {@code @ExtendWith(LogbusExtension.class)} serves as well, if nothing is to be set.
 */
public final class LogbusExtension
        implements BeforeAllCallback, BeforeEachCallback, AfterAllCallback, ParameterResolver {
    private final LogbusServer.Options options;
    private LogbusServer server;
    private boolean isFresh;

    public LogbusExtension() {
        this(new LogbusServer.Options());
    }

    public LogbusExtension(LogbusServer.Options options) {
        this.options = options;
    }

    /** The server, while tests run. */
    public LogbusServer server() {
        if (server == null) {
            throw new IllegalStateException("logbus test server: it runs only while tests do; is the field static?");
        }
        return server;
    }

    @Override
    public void beforeAll(ExtensionContext context) {
        server = LogbusServer.start(options);
        isFresh = true;
    }

    @Override
    public void beforeEach(ExtensionContext context) {
        if (!isFresh) {
            server().reset();
        }
        isFresh = false;
    }

    @Override
    public void afterAll(ExtensionContext context) {
        LogbusServer ended = server;
        server = null;
        if (ended != null) {
            ended.close();
        }
    }

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
        return parameter.getParameter().getType() == LogbusServer.class;
    }

    @Override
    public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
        return server();
    }
}
