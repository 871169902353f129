import io.aeron.Aeron;
import java.util.ArrayList;
import java.util.List;
import org.agrona.ErrorHandler;
import org.agrona.concurrent.Agent;
import org.agrona.concurrent.AgentInvoker;
import uk.co.real_logic.artio.engine.EngineConfiguration;
import uk.co.real_logic.artio.engine.EngineScheduler;
import uk.co.real_logic.artio.engine.RecordingCoordinator;
import uk.co.real_logic.artio.library.LibraryConfiguration;
import uk.co.real_logic.artio.library.LibraryScheduler;

/** Schedulers that start no thread: what engine and library want to run is run by whoever calls {@link #work}. */
final class OneThread {
    private final AgentInvoker driver;
    private final List<AgentInvoker> agents = new ArrayList<>();

    OneThread(AgentInvoker driver) {
        this.driver = driver;
    }

    AgentInvoker driver() {
        return driver;
    }

    void work() {
        for (int i = 0; i < agents.size(); i++) {
            agents.get(i).invoke();
        }
    }

    private void add(ErrorHandler errors, Agent... all) {
        for (Agent agent : all) {
            if (agent != null) {
                AgentInvoker invoker = new AgentInvoker(errors, null, agent);
                agents.add(invoker);
                invoker.start();
            }
        }
    }

    EngineScheduler engine() {
        return new EngineScheduler() {
            @Override
            public void launch(
                    EngineConfiguration configuration,
                    ErrorHandler errors,
                    Agent framer,
                    Agent indexing,
                    Agent monitoring,
                    Agent conductor,
                    RecordingCoordinator recording) {
                add(errors, framer, indexing, monitoring, conductor);
            }

            @Override
            public void close() {}

            @Override
            public int pollFramer() {
                return 0;
            }

            @Override
            public void configure(Aeron.Context context) {
                context.useConductorAgentInvoker(true);
            }
        };
    }

    LibraryScheduler library() {
        return new LibraryScheduler() {
            @Override
            public void launch(
                    LibraryConfiguration configuration, ErrorHandler errors, Agent monitoring, Agent conductor) {
                add(errors, monitoring, conductor);
            }

            @Override
            public void close(int library) {}

            @Override
            public void configure(Aeron.Context context) {
                context.useConductorAgentInvoker(true);
            }
        };
    }
}
