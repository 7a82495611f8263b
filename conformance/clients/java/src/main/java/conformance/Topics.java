package conformance;

import static conformance.Messages.next;
import static conformance.Messages.nothing;
import static conformance.Messages.text;
import static conformance.Program.builder;
import static conformance.Program.expect;

import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusRuleManagerClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.messaging.servicebus.administration.models.CorrelationRuleFilter;
import com.azure.messaging.servicebus.administration.models.CreateRuleOptions;
import com.azure.messaging.servicebus.administration.models.SqlRuleAction;
import com.azure.messaging.servicebus.administration.models.SqlRuleFilter;
import com.azure.messaging.servicebus.administration.models.TrueRuleFilter;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;

/** Topics, and rules by the rule manager, which speaks AMQP. */
final class Topics {
    private static final String TOPIC = "news";

    private Topics() {
    }

    static void addTo(Map<String, Program.Case> cases) {
        cases.put("topic", Topics::topic);
        cases.put("rule-sql", Topics::sql);
        cases.put("rule-correlation", Topics::correlation);
        cases.put("rule-action", Topics::action);
    }

    private static void publish(ServiceBusMessage message) {
        try (ServiceBusSenderClient sender = builder().sender().topicName(TOPIC).buildClient()) {
            sender.sendMessage(message);
        }
    }

    private static ServiceBusReceiverClient reader(String subscription) {
        return builder().receiver().topicName(TOPIC).subscriptionName(subscription).disableAutoComplete()
            .buildClient();
    }

    private static void topic() {
        publish(text("extra").setSubject("headline"));
        for (String subscription : List.of("all", "ruled")) {
            try (ServiceBusReceiverClient receiver = reader(subscription)) {
                ServiceBusReceivedMessage message = next(receiver);
                expect(message.getBody().toString().equals("extra"), message.getBody());
                expect(message.getSubject().equals("headline"), message.getSubject());
                receiver.complete(message);
            }
        }
    }

    /** With that rule alone; afterwards everything is as before. */
    private static void selects(CreateRuleOptions rule, Consumer<ServiceBusReceivedMessage> look) {
        try (ServiceBusRuleManagerClient rules =
            builder().ruleManager().topicName(TOPIC).subscriptionName("ruled").buildClient()) {
            rules.createRule("ours", rule);
            rules.deleteRule("$Default");
            expect(rules.listRules().stream().allMatch(found -> found.getName().equals("ours")), "other rules");
            selectsBlue(look);
            rules.createRule("$Default", new CreateRuleOptions(new TrueRuleFilter()));
            rules.deleteRule("ours");
            expect(rules.listRules().stream().map(found -> found.getName()).toList().equals(List.of("$Default")));
        }
        try (ServiceBusReceiverClient receiver = reader("all")) {
            for (int number = 0; number < 3; number++) {
                receiver.complete(next(receiver));
            }
        }
    }

    private static void selectsBlue(Consumer<ServiceBusReceivedMessage> look) {
        for (String color : List.of("red", "blue", "green")) {
            ServiceBusMessage message = text(color + "!").setCorrelationId(color);
            message.getApplicationProperties().put("color", color);
            message.getApplicationProperties().put("size", (long) color.length());
            publish(message);
        }
        try (ServiceBusReceiverClient receiver = reader("ruled")) {
            ServiceBusReceivedMessage message = next(receiver);
            expect(message.getBody().toString().equals("blue!"), message.getBody());
            look.accept(message);
            receiver.complete(message);
            nothing(receiver);
        }
    }

    private static void sql() {
        // Without parameters: over AMQP there is no place for them.
        SqlRuleFilter filter = new SqlRuleFilter("color = 'blue' AND size > 3 AND sys.MessageId LIKE 'id of%'");
        selects(new CreateRuleOptions(filter), message -> { });
    }

    private static void correlation() {
        CorrelationRuleFilter filter = new CorrelationRuleFilter().setCorrelationId("blue");
        filter.getProperties().put("color", "blue");
        selects(new CreateRuleOptions(filter), message -> { });
    }

    private static void action() {
        CreateRuleOptions rule = new CreateRuleOptions(new SqlRuleFilter("color = 'blue'"))
            .setAction(new SqlRuleAction("SET sys.Label = 'marked'; SET seen = TRUE; REMOVE size"));
        selects(rule, message -> {
            expect("marked".equals(message.getSubject()), message.getSubject());
            expect(Boolean.TRUE.equals(message.getApplicationProperties().get("seen")), "not seen");
            expect(!message.getApplicationProperties().containsKey("size"), "size is still there");
        });
    }
}
