package conformance;

import static conformance.Messages.next;
import static conformance.Messages.nothing;
import static conformance.Messages.post;
import static conformance.Messages.text;
import static conformance.Program.builder;
import static conformance.Program.expect;

import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSessionReceiverClient;
import java.time.OffsetDateTime;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/** Sessions by name and the next one, their state, their lock. */
final class Sessions {
    private static final String QUEUE = "sessions";

    private Sessions() {
    }

    static void addTo(Map<String, Program.Case> cases) {
        cases.put("session-named", Sessions::named);
        cases.put("session-next", Sessions::nextOne);
        cases.put("session-state", Sessions::state);
        cases.put("session-renew", Sessions::renew);
    }

    private static void sendTo(String session, String... bodies) {
        for (String body : bodies) {
            post(QUEUE, text(body).setSessionId(session));
        }
    }

    private static ServiceBusSessionReceiverClient sessions() {
        return builder().sessionReceiver().queueName(QUEUE).disableAutoComplete().buildClient();
    }

    private static void named() {
        sendTo("other", "not for us");
        sendTo("mine", "first", "second");
        try (ServiceBusSessionReceiverClient sessions = sessions()) {
            try (ServiceBusReceiverClient receiver = sessions.acceptSession("mine")) {
                expect(receiver.getSessionId().equals("mine"), receiver.getSessionId());
                for (String body : List.of("first", "second")) {
                    ServiceBusReceivedMessage message = next(receiver);
                    expect(message.getBody().toString().equals(body), message.getBody());
                    expect(message.getSessionId().equals("mine"), message.getSessionId());
                    receiver.complete(message);
                }
                nothing(receiver);
            }
            try (ServiceBusReceiverClient receiver = sessions.acceptSession("other")) {
                receiver.complete(next(receiver));
            }
        }
    }

    private static void nextOne() {
        sendTo("waiting", "for anybody");
        try (ServiceBusSessionReceiverClient sessions = sessions();
            ServiceBusReceiverClient receiver = sessions.acceptNextSession()) {
            expect(receiver.getSessionId().equals("waiting"), receiver.getSessionId());
            ServiceBusReceivedMessage message = next(receiver);
            expect(message.getBody().toString().equals("for anybody"), message.getBody());
            receiver.complete(message);
        }
    }

    private static void state() {
        try (ServiceBusSessionReceiverClient sessions = sessions();
            ServiceBusReceiverClient receiver = sessions.acceptSession("stateful")) {
            expect(receiver.getSessionState() == null, "there is a state already");
            byte[] wanted = "half way".getBytes();
            receiver.setSessionState(wanted);
            expect(Arrays.equals(receiver.getSessionState(), wanted), receiver.getSessionState());
            receiver.setSessionState(null);
            expect(receiver.getSessionState() == null, receiver.getSessionState());
        }
    }

    private static void renew() throws InterruptedException {
        try (ServiceBusSessionReceiverClient sessions = sessions();
            ServiceBusReceiverClient receiver = sessions.acceptSession("long")) {
            OffsetDateTime first = receiver.renewSessionLock();
            expect(first.isAfter(OffsetDateTime.now()), first);
            Thread.sleep(50);
            OffsetDateTime second = receiver.renewSessionLock();
            expect(second.isAfter(first), first, second);
        }
    }
}
