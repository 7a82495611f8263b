package conformance;

import com.azure.core.amqp.AmqpTransportType;
import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** Every case of ../cases.py, by the SDK for Java. ../README.md says what it is told and what it prints. With
 * arguments: the cases of these names alone. */
public final class Program {
    /** Bounds against hanging; not waited out where the bus answers. */
    static final Duration PATIENCE = Duration.ofSeconds(20);
    /** How long nothing must come before there is taken to be nothing. */
    static final Duration QUIET = Duration.ofMillis(1500);

    private static final int CASE_SECONDS = 90;

    interface Case {
        void run() throws Exception;
    }

    private Program() {
    }

    public static void main(String[] arguments) {
        Map<String, Case> cases = new LinkedHashMap<>();
        Messages.addTo(cases);
        Sessions.addTo(cases);
        Topics.addTo(cases);
        Transactions.addTo(cases);
        Administration.addTo(cases);
        if (arguments.length > 0) {
            cases.keySet().retainAll(Set.of(arguments));
        }
        cases.forEach(Program::tell);
        // Threads of the SDK would go on.
        System.exit(0);
    }

    static ServiceBusClientBuilder builder() {
        boolean isWebSocket = System.getenv("SB_TRANSPORT").equals("wss");
        return new ServiceBusClientBuilder()
            .connectionString(System.getenv("SB_CONNECTION_STRING"))
            .transportType(isWebSocket ? AmqpTransportType.AMQP_WEB_SOCKETS : AmqpTransportType.AMQP);
    }

    static void expect(boolean is, Object... found) {
        if (!is) {
            throw new IllegalStateException("found " + java.util.Arrays.toString(found));
        }
    }

    private static void tell(String name, Case one) {
        CompletableFuture<Void> work = CompletableFuture.runAsync(() -> {
            try {
                one.run();
            } catch (Exception wrong) {
                throw new IllegalStateException(wrong.toString(), wrong);
            }
        });
        String wrong = "";
        try {
            work.get(CASE_SECONDS, TimeUnit.SECONDS);
        } catch (ExecutionException error) {
            error.printStackTrace();
            wrong = String.valueOf(error.getCause().getMessage());
        } catch (TimeoutException | InterruptedException error) {
            wrong = "not done in " + CASE_SECONDS + " seconds";
        }
        System.out.printf("{\"case\": \"%s\", \"ok\": %b, \"text\": \"%s\"}%n", name, wrong.isEmpty(), escaped(wrong));
    }

    private static String escaped(String text) {
        return text.replace("\\", "\\\\").replace("\"", "\\\"").replaceAll("\\p{Cntrl}", " ");
    }
}
