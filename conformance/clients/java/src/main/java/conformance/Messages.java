package conformance;

import static conformance.Program.PATIENCE;
import static conformance.Program.QUIET;
import static conformance.Program.builder;
import static conformance.Program.expect;

import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusMessageBatch;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.messaging.servicebus.models.AbandonOptions;
import com.azure.messaging.servicebus.models.DeadLetterOptions;
import com.azure.messaging.servicebus.models.ServiceBusReceiveMode;
import com.azure.messaging.servicebus.models.SubQueue;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/** Sending, receiving, settling, time. */
final class Messages {
    private static final String WORK = "work";

    private Messages() {
    }

    static void addTo(Map<String, Program.Case> cases) {
        cases.put("send", Messages::send);
        cases.put("send-batch", Messages::sendBatch);
        cases.put("no-id", Messages::noId);
        cases.put("receive-and-delete", Messages::receiveAndDelete);
        cases.put("prefetch", Messages::prefetch);
        cases.put("complete", Messages::complete);
        cases.put("abandon", Messages::abandon);
        cases.put("defer", Messages::defer);
        cases.put("dead-letter", Messages::deadLetter);
        cases.put("renew", Messages::renew);
        cases.put("peek", Messages::peek);
        cases.put("schedule", Messages::schedule);
        cases.put("cancel", Messages::cancel);
        cases.put("time-to-live", Messages::timeToLive);
    }

    static ServiceBusMessage text(String body) {
        return new ServiceBusMessage(body).setMessageId("id of " + body);
    }

    static void post(String queue, ServiceBusMessage... messages) {
        try (ServiceBusSenderClient sender = builder().sender().queueName(queue).buildClient()) {
            for (ServiceBusMessage message : messages) {
                sender.sendMessage(message);
            }
        }
    }

    private static ServiceBusReceiverClient receiver() {
        return builder().receiver().queueName(WORK).disableAutoComplete().buildClient();
    }

    static ServiceBusReceivedMessage next(ServiceBusReceiverClient receiver) {
        List<ServiceBusReceivedMessage> found =
            receiver.receiveMessages(1, PATIENCE).stream().collect(Collectors.toList());
        expect(found.size() == 1, found.size(), "messages");
        return found.get(0);
    }

    static void nothing(ServiceBusReceiverClient receiver) {
        long count = receiver.receiveMessages(1, QUIET).stream().count();
        expect(count == 0, "there is still a message");
    }

    private static void send() {
        ServiceBusMessage sent = new ServiceBusMessage("hello").setMessageId("one").setSubject("greeting")
            .setCorrelationId("related").setContentType("text/plain");
        sent.getApplicationProperties().put("number", 7L);
        sent.getApplicationProperties().put("name", "x");
        sent.getApplicationProperties().put("yes", true);
        post(WORK, sent);
        try (ServiceBusReceiverClient receiver = receiver()) {
            ServiceBusReceivedMessage message = next(receiver);
            expect(message.getBody().toString().equals("hello"), message.getBody());
            expect(message.getMessageId().equals("one"), message.getMessageId());
            expect(message.getSubject().equals("greeting"), message.getSubject());
            expect(message.getCorrelationId().equals("related"), message.getCorrelationId());
            expect(message.getContentType().equals("text/plain"), message.getContentType());
            expect(message.getApplicationProperties().equals(sent.getApplicationProperties()),
                message.getApplicationProperties());
            expect(message.getSequenceNumber() > 0 && message.getEnqueuedTime() != null);
            receiver.complete(message);
        }
    }

    private static void sendBatch() {
        try (ServiceBusSenderClient sender = builder().sender().queueName(WORK).buildClient()) {
            ServiceBusMessageBatch batch = sender.createMessageBatch();
            for (int number = 0; number < 10; number++) {
                expect(batch.tryAddMessage(text("" + number)), number);
            }
            sender.sendMessages(batch);
        }
        try (ServiceBusReceiverClient receiver = receiver()) {
            for (int number = 0; number < 10; number++) {
                ServiceBusReceivedMessage message = next(receiver);
                expect(message.getBody().toString().equals("" + number), message.getBody(), number);
                receiver.complete(message);
            }
        }
    }

    private static void noId() {
        post(WORK, new ServiceBusMessage("anonymous"));
        try (ServiceBusReceiverClient receiver = receiver()) {
            ServiceBusReceivedMessage message = next(receiver);
            receiver.complete(message);
            expect(message.getMessageId() != null && !message.getMessageId().isEmpty(), message.getMessageId());
        }
    }

    private static void receiveAndDelete() {
        post(WORK, text("fleeting"));
        try (ServiceBusReceiverClient receiver = builder().receiver().queueName(WORK)
            .receiveMode(ServiceBusReceiveMode.RECEIVE_AND_DELETE).buildClient()) {
            expect(next(receiver).getBody().toString().equals("fleeting"));
            nothing(receiver);
        }
    }

    private static void prefetch() {
        post("ahead", text("one"), text("two"));
        try (ServiceBusReceiverClient receiver =
            builder().receiver().queueName("ahead").prefetchCount(10).disableAutoComplete().buildClient()) {
            for (String body : List.of("one", "two")) {
                ServiceBusReceivedMessage message = next(receiver);
                expect(message.getBody().toString().equals(body), message.getBody());
                receiver.complete(message);
            }
        }
    }

    private static void complete() {
        post(WORK, text("done"));
        try (ServiceBusReceiverClient receiver = receiver()) {
            receiver.complete(next(receiver));
            nothing(receiver);
        }
    }

    private static void abandon() {
        post(WORK, text("again"));
        try (ServiceBusReceiverClient receiver = receiver()) {
            ServiceBusReceivedMessage first = next(receiver);
            receiver.abandon(first, new AbandonOptions().setPropertiesToModify(Map.of("tried", "once")));
            ServiceBusReceivedMessage second = next(receiver);
            expect(second.getDeliveryCount() == first.getDeliveryCount() + 1, second.getDeliveryCount());
            expect("once".equals(second.getApplicationProperties().get("tried")), second.getApplicationProperties());
            receiver.complete(second);
        }
    }

    private static void defer() {
        post(WORK, text("later"));
        try (ServiceBusReceiverClient receiver = receiver()) {
            ServiceBusReceivedMessage message = next(receiver);
            receiver.defer(message);
            nothing(receiver);
            ServiceBusReceivedMessage again = receiver.receiveDeferredMessage(message.getSequenceNumber());
            expect(again.getBody().toString().equals("later"), again.getBody());
            receiver.complete(again);
        }
    }

    private static void deadLetter() {
        post(WORK, text("bad"));
        try (ServiceBusReceiverClient receiver = receiver()) {
            receiver.deadLetter(next(receiver), new DeadLetterOptions().setDeadLetterReason("because")
                .setDeadLetterErrorDescription("in detail"));
        }
        try (ServiceBusReceiverClient receiver = builder().receiver().queueName(WORK)
            .subQueue(SubQueue.DEAD_LETTER_QUEUE).disableAutoComplete().buildClient()) {
            ServiceBusReceivedMessage message = next(receiver);
            expect(message.getBody().toString().equals("bad"), message.getBody());
            expect("because".equals(message.getDeadLetterReason()), message.getDeadLetterReason());
            expect("in detail".equals(message.getDeadLetterErrorDescription()),
                message.getDeadLetterErrorDescription());
            receiver.complete(message);
        }
    }

    private static void renew() throws InterruptedException {
        post(WORK, text("slow"));
        try (ServiceBusReceiverClient receiver = receiver()) {
            ServiceBusReceivedMessage message = next(receiver);
            OffsetDateTime before = message.getLockedUntil();
            Thread.sleep(50);
            OffsetDateTime after = receiver.renewMessageLock(message);
            expect(after.isAfter(before), before, after);
            receiver.complete(message);
        }
    }

    private static void peek() {
        post(WORK, text("seen"), text("seen too"));
        try (ServiceBusReceiverClient receiver = receiver()) {
            List<ServiceBusReceivedMessage> seen = receiver.peekMessages(10).stream().collect(Collectors.toList());
            expect(seen.size() == 2 && seen.get(1).getBody().toString().equals("seen too"), seen.size());
            for (int number = 0; number < 2; number++) {
                ServiceBusReceivedMessage message = next(receiver);
                expect(message.getDeliveryCount() == 0, message.getDeliveryCount());
                receiver.complete(message);
            }
        }
    }

    private static void schedule() {
        OffsetDateTime due = OffsetDateTime.now().plusSeconds(3);
        try (ServiceBusSenderClient sender = builder().sender().queueName(WORK).buildClient()) {
            long number = sender.scheduleMessage(text("in time").setTimeToLive(Duration.ofHours(1)), due);
            expect(number > 0, number);
        }
        try (ServiceBusReceiverClient receiver = receiver()) {
            ServiceBusReceivedMessage message = next(receiver);
            expect(OffsetDateTime.now().isAfter(due.minusNanos(500_000_000)), "it came too early");
            expect(message.getBody().toString().equals("in time"), message.getBody());
            receiver.complete(message);
            expect(message.getTimeToLive().equals(Duration.ofHours(1)), message.getTimeToLive());
        }
    }

    private static void cancel() throws InterruptedException {
        OffsetDateTime due = OffsetDateTime.now().plusSeconds(2);
        try (ServiceBusSenderClient sender = builder().sender().queueName(WORK).buildClient()) {
            long number = sender.scheduleMessage(text("never"), due);
            sender.cancelScheduledMessage(number);
        }
        Thread.sleep(2000);
        try (ServiceBusReceiverClient receiver = receiver()) {
            nothing(receiver);
        }
    }

    /** This SDK refuses to send a TTL of more than 49 days: its milliseconds do not fit into the header. */
    private static void timeToLive() {
        for (int days : new int[] {1, 49}) {
            Duration wanted = Duration.ofDays(days);
            post(WORK, text("perishable").setTimeToLive(wanted));
            try (ServiceBusReceiverClient receiver = receiver()) {
                ServiceBusReceivedMessage message = next(receiver);
                receiver.complete(message);
                Duration left = Duration.between(message.getEnqueuedTime(), message.getExpiresAt());
                expect(left.minus(wanted).abs().toMillis() < 1000, left, "instead of", wanted);
            }
        }
    }
}
