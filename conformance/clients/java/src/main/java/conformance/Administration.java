package conformance;

import static conformance.Messages.post;
import static conformance.Messages.text;
import static conformance.Program.expect;

import com.azure.core.exception.ResourceNotFoundException;
import com.azure.core.http.HttpPipelineCallContext;
import com.azure.core.http.HttpPipelineNextPolicy;
import com.azure.core.http.HttpResponse;
import com.azure.core.util.UrlBuilder;
import com.azure.messaging.servicebus.administration.ServiceBusAdministrationClient;
import com.azure.messaging.servicebus.administration.ServiceBusAdministrationClientBuilder;
import com.azure.messaging.servicebus.administration.models.CorrelationRuleFilter;
import com.azure.messaging.servicebus.administration.models.CreateQueueOptions;
import com.azure.messaging.servicebus.administration.models.CreateRuleOptions;
import com.azure.messaging.servicebus.administration.models.CreateSubscriptionOptions;
import com.azure.messaging.servicebus.administration.models.CreateTopicOptions;
import com.azure.messaging.servicebus.administration.models.QueueProperties;
import com.azure.messaging.servicebus.administration.models.QueueRuntimeProperties;
import com.azure.messaging.servicebus.administration.models.RuleProperties;
import com.azure.messaging.servicebus.administration.models.SqlRuleAction;
import com.azure.messaging.servicebus.administration.models.SqlRuleFilter;
import com.azure.messaging.servicebus.administration.models.SubscriptionProperties;
import com.azure.messaging.servicebus.administration.models.TopicProperties;
import java.net.MalformedURLException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import reactor.core.publisher.Mono;

/** Entities over HTTPS. */
final class Administration {
    private Administration() {
    }

    static void addTo(Map<String, Program.Case> cases) {
        cases.put("admin-queue", Administration::queue);
        cases.put("admin-topic", Administration::topic);
        cases.put("admin-subscription", Administration::subscription);
        cases.put("admin-rule", Administration::rule);
    }

    /** This SDK takes the host of the connection string and port 443, whatever the string says. */
    private static ServiceBusAdministrationClient client() {
        ServiceBusAdministrationClientBuilder builder =
            new ServiceBusAdministrationClientBuilder().connectionString(System.getenv("SB_CONNECTION_STRING"));
        if (!System.getenv("SB_HTTP_PORT").equals("443")) {
            builder.addPolicy(Administration::atOurPort);
        }
        return builder.buildClient();
    }

    private static Mono<HttpResponse> atOurPort(HttpPipelineCallContext context, HttpPipelineNextPolicy rest) {
        try {
            UrlBuilder url = UrlBuilder.parse(context.getHttpRequest().getUrl());
            context.getHttpRequest().setUrl(url.setPort(System.getenv("SB_HTTP_PORT")).toUrl());
        } catch (MalformedURLException error) {
            return Mono.error(error);
        }
        return rest.process();
    }

    private static void gone(Runnable ask) {
        try {
            ask.run();
        } catch (ResourceNotFoundException expected) {
            return;
        }
        expect(false, "it is still there");
    }

    private static void queue() {
        String name = "made/by-java";
        ServiceBusAdministrationClient client = client();
        QueueProperties created = client.createQueue(name, new CreateQueueOptions()
            .setLockDuration(Duration.ofSeconds(45)).setMaxDeliveryCount(7).setUserMetadata("a < b & c"));
        expect(created.getName().equals(name), created.getName());
        QueueProperties found = client.getQueue(name);
        expect(found.getLockDuration().equals(Duration.ofSeconds(45)), found.getLockDuration());
        expect(found.getMaxDeliveryCount() == 7, found.getMaxDeliveryCount());
        expect("a < b & c".equals(found.getUserMetadata()), found.getUserMetadata());
        QueueProperties updated = client.updateQueue(found.setMaxDeliveryCount(9));
        expect(updated.getMaxDeliveryCount() == 9, updated.getMaxDeliveryCount());
        post(name, text("counted"));
        QueueRuntimeProperties runtime = client.getQueueRuntimeProperties(name);
        expect(runtime.getActiveMessageCount() == 1, runtime.getActiveMessageCount());
        expect(runtime.getTotalMessageCount() == 1 && runtime.getSizeInBytes() > 0, runtime.getSizeInBytes());
        expect(client.listQueues().stream().filter(queue -> queue.getName().equals(name)).count() == 1, "the list");
        expect(client.getQueueExists(name) && !client.getQueueExists("no-such-queue"), "what exists");
        client.deleteQueue(name);
        gone(() -> client.getQueue(name));
    }

    private static void topic() {
        String name = "made-by-java";
        ServiceBusAdministrationClient client = client();
        client.createTopic(name, new CreateTopicOptions().setDefaultMessageTimeToLive(Duration.ofDays(1)));
        TopicProperties found = client.getTopic(name);
        expect(found.getDefaultMessageTimeToLive().equals(Duration.ofDays(1)), found.getDefaultMessageTimeToLive());
        TopicProperties updated = client.updateTopic(found.setDefaultMessageTimeToLive(Duration.ofDays(2)));
        expect(updated.getDefaultMessageTimeToLive().equals(Duration.ofDays(2)), "the update");
        expect(client.getTopicRuntimeProperties(name).getSubscriptionCount() == 0, "subscriptions");
        expect(client.listTopics().stream().filter(topic -> topic.getName().equals(name)).count() == 1, "the list");
        client.deleteTopic(name);
        gone(() -> client.getTopic(name));
    }

    private static void subscription() {
        String name = "by-java";
        ServiceBusAdministrationClient client = client();
        client.createSubscription("news", name, new CreateSubscriptionOptions()
            .setLockDuration(Duration.ofSeconds(20)));
        SubscriptionProperties found = client.getSubscription("news", name);
        expect(found.getTopicName().equals("news") && found.getSubscriptionName().equals(name), found.getTopicName());
        expect(found.getLockDuration().equals(Duration.ofSeconds(20)), found.getLockDuration());
        SubscriptionProperties updated = client.updateSubscription(found.setMaxDeliveryCount(4));
        expect(updated.getMaxDeliveryCount() == 4, updated.getMaxDeliveryCount());
        expect(client.getSubscriptionRuntimeProperties("news", name).getActiveMessageCount() == 0, "messages");
        Set<String> names = client.listSubscriptions("news").stream()
            .map(SubscriptionProperties::getSubscriptionName).collect(Collectors.toSet());
        expect(names.containsAll(List.of("all", "ruled", name)), names);
        client.deleteSubscription("news", name);
        gone(() -> client.getSubscription("news", name));
    }

    private static void rule() {
        String name = "by-java";
        ServiceBusAdministrationClient client = client();
        SqlRuleFilter filter = new SqlRuleFilter("size > @size");
        filter.getParameters().put("@size", 3L);
        client.createRule("news", name, "ruled",
            new CreateRuleOptions(filter).setAction(new SqlRuleAction("SET size = 1")));
        RuleProperties found = client.getRule("news", "ruled", name);
        SqlRuleFilter kept = (SqlRuleFilter) found.getFilter();
        expect(kept.getSqlExpression().equals("size > @size"), kept.getSqlExpression());
        // Of what type it was this SDK does not tell.
        expect("3".equals(String.valueOf(kept.getParameters().get("@size"))), kept.getParameters());
        expect(((SqlRuleAction) found.getAction()).getSqlExpression().equals("SET size = 1"), found.getAction());
        RuleProperties updated = client.updateRule("news", "ruled",
            found.setFilter(new CorrelationRuleFilter().setLabel("x")));
        expect(((CorrelationRuleFilter) updated.getFilter()).getLabel().equals("x"), updated.getFilter());
        Set<String> names = client.listRules("news", "ruled").stream().map(RuleProperties::getName)
            .collect(Collectors.toSet());
        expect(names.equals(Set.of("$Default", name)), names);
        client.deleteRule("news", "ruled", name);
        gone(() -> client.getRule("news", "ruled", name));
    }
}
