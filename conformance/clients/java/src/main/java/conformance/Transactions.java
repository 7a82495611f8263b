package conformance;

import static conformance.Messages.next;
import static conformance.Messages.post;
import static conformance.Messages.text;
import static conformance.Program.builder;
import static conformance.Program.expect;

import com.azure.core.util.Configuration;
import com.azure.core.util.ConfigurationBuilder;
import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.messaging.servicebus.ServiceBusTransactionContext;
import com.azure.messaging.servicebus.models.CompleteOptions;
import java.util.List;
import java.util.Map;

/** Settling one message and sending another, together or not at all. */
final class Transactions {
    private Transactions() {
    }

    static void addTo(Map<String, Program.Case> cases) {
        cases.put("transaction", Transactions::across);
    }

    /** In 7.15 senders and receivers are of different make and do not share a connection unless they are told to
     * be of the same; a transaction is of one connection. */
    private static ServiceBusClientBuilder together() {
        Configuration alike = new ConfigurationBuilder()
            .putProperty("com.azure.messaging.servicebus.nonSession.syncReceive.v2", "true")
            .putProperty("com.azure.messaging.servicebus.sendAndManageRules.v2", "true").build();
        return builder().configuration(alike).enableCrossEntityTransactions();
    }

    /** What a transaction settled cannot be settled again by this SDK, also after a roll-back. */
    private static void across() {
        post("work", text("kept"), text("taken"));
        ServiceBusClientBuilder together = together();
        try (ServiceBusReceiverClient receiver =
                together.receiver().queueName("work").disableAutoComplete().buildClient();
            ServiceBusSenderClient sender = together.sender().queueName("ahead").buildClient()) {
            turn(receiver, sender, next(receiver), false);
            turn(receiver, sender, next(receiver), true);
        }
        expect(bodies("work").equals(List.of("kept")), "work:", bodies("work"));
        expect(bodies("ahead").equals(List.of("effect of taken")), "ahead:", bodies("ahead"));
    }

    private static void turn(ServiceBusReceiverClient receiver, ServiceBusSenderClient sender,
        ServiceBusReceivedMessage message, boolean commits) {
        ServiceBusTransactionContext transaction = receiver.createTransaction();
        sender.sendMessage(text("effect of " + message.getBody()), transaction);
        receiver.complete(message, new CompleteOptions().setTransactionContext(transaction));
        if (commits) {
            receiver.commitTransaction(transaction);
        } else {
            receiver.rollbackTransaction(transaction);
        }
    }

    private static List<String> bodies(String queue) {
        try (ServiceBusReceiverClient receiver = builder().receiver().queueName(queue).buildClient()) {
            return receiver.peekMessages(10).stream().map(message -> message.getBody().toString()).toList();
        }
    }
}
