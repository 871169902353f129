import static java.util.Collections.singletonList;

import io.aeron.Aeron;
import io.aeron.driver.MediaDriver;
import io.aeron.driver.ThreadingMode;
import java.util.concurrent.TimeUnit;
import org.agrona.concurrent.AgentInvoker;
import uk.co.real_logic.artio.engine.EngineConfiguration;
import uk.co.real_logic.artio.engine.FixEngine;
import uk.co.real_logic.artio.library.AcquiringSessionExistsHandler;
import uk.co.real_logic.artio.library.FixLibrary;
import uk.co.real_logic.artio.library.LibraryConfiguration;
import uk.co.real_logic.artio.messages.InitialAcceptedSessionOwner;
import uk.co.real_logic.artio.validation.AuthenticationStrategy;
import uk.co.real_logic.artio.validation.MessageValidationStrategy;

/**
 * Acceptor HOST PORT FOLDER: Artio's engine, its library and Aeron's media driver in one thread that never sleeps. Their
 * authors give each a CPU of its own; here all acceptors have one, and four spinning threads on it would wait for each
 * other's time slices. No message is logged, no codec validates, so nothing is slower than it must be.
 */
final class Acceptor {
    private static final String CHANNEL = "aeron:ipc";
    /** An acceptor is stopped while others are measured: nothing here may take that for the death of a client. */
    private static final long FOREVER_NS = TimeUnit.HOURS.toNanos(6);

    private Acceptor() {}

    public static void main(String[] arguments) {
        String folder = arguments[2];
        MediaDriver.Context driverContext = new MediaDriver.Context()
                .aeronDirectoryName(folder + "/aeron")
                .dirDeleteOnStart(true)
                .dirDeleteOnShutdown(true)
                .threadingMode(ThreadingMode.INVOKER)
                .clientLivenessTimeoutNs(FOREVER_NS)
                .publicationUnblockTimeoutNs(2 * FOREVER_NS)
                .imageLivenessTimeoutNs(FOREVER_NS)
                .timerIntervalNs(TimeUnit.SECONDS.toNanos(1))
                .driverTimeoutMs(TimeUnit.NANOSECONDS.toMillis(FOREVER_NS))
                .publicationTermBufferLength(16 << 20);
        MediaDriver driver = MediaDriver.launch(driverContext);
        AgentInvoker invoker = driver.sharedAgentInvoker();
        OneThread agents = new OneThread(invoker);
        FixEngine engine = FixEngine.launch(engine(arguments, agents));
        FixLibrary library = FixLibrary.connect(library(folder, agents));
        boolean isReady = false;
        for (;;) {
            invoker.invoke();
            agents.work();
            library.poll(10);
            if (!isReady && library.isConnected()) {
                isReady = true;
                System.out.println("ready");
            }
        }
    }

    private static EngineConfiguration engine(String[] arguments, OneThread agents) {
        EngineConfiguration configuration = new EngineConfiguration()
                .bindTo(arguments[0], Integer.parseInt(arguments[1]))
                .libraryAeronChannel(CHANNEL)
                .logFileDir(arguments[2] + "/logs")
                .deleteLogFileDirOnStart(true)
                .monitoringFile(arguments[2] + "/engine-monitoring")
                .logInboundMessages(false)
                .logOutboundMessages(false)
                .initialAcceptedSessionOwner(InitialAcceptedSessionOwner.SOLE_LIBRARY)
                .authenticationStrategy(AuthenticationStrategy.none())
                .messageValidationStrategy(MessageValidationStrategy.none())
                .scheduler(agents.engine());
        configuration.replyTimeoutInMs(TimeUnit.NANOSECONDS.toMillis(FOREVER_NS));
        context(configuration.aeronContext(), arguments[2], agents);
        return configuration;
    }

    private static LibraryConfiguration library(String folder, OneThread agents) {
        LibraryConfiguration configuration = new LibraryConfiguration()
                .libraryAeronChannels(singletonList(CHANNEL))
                .monitoringFile(folder + "/library-monitoring")
                .sessionAcquireHandler((session, information) -> new Exchange())
                .sessionExistsHandler(new AcquiringSessionExistsHandler(true))
                .scheduler(agents.library());
        configuration.replyTimeoutInMs(TimeUnit.NANOSECONDS.toMillis(FOREVER_NS));
        context(configuration.aeronContext(), folder, agents);
        return configuration;
    }

    private static void context(Aeron.Context context, String folder, OneThread agents) {
        context.aeronDirectoryName(folder + "/aeron")
                .driverAgentInvoker(agents.driver())
                .driverTimeoutMs(TimeUnit.NANOSECONDS.toMillis(FOREVER_NS));
    }
}
