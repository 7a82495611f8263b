package main

import (
	"context"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

var administrationCases = []testCase{
	{"admin-queue", adminQueue},
	{"admin-topic", adminTopic},
	{"admin-subscription", adminSubscription},
	{"admin-rule", adminRule},
}

func adminQueue(ctx context.Context) {
	const name = "made/by-go"
	properties := &admin.QueueProperties{
		LockDuration:     ptr("PT45S"),
		MaxDeliveryCount: ptr(int32(7)),
		UserMetadata:     ptr("a < b & c"),
	}
	created := got(administration.CreateQueue(ctx, name, &admin.CreateQueueOptions{Properties: properties}))
	expect(created.QueueName == name && *created.LockDuration == "PT45S", "%v %v", created.QueueName, *created.LockDuration)
	found := got(administration.GetQueue(ctx, name, nil))
	expect(*found.MaxDeliveryCount == 7 && *found.UserMetadata == "a < b & c", "%v", *found.UserMetadata)
	found.MaxDeliveryCount = ptr(int32(9))
	updated := got(administration.UpdateQueue(ctx, name, found.QueueProperties, nil))
	expect(*updated.MaxDeliveryCount == 9 && *updated.LockDuration == "PT45S", "%v", *updated.MaxDeliveryCount)
	send(ctx, name, text("counted"))
	runtime := got(administration.GetQueueRuntimeProperties(ctx, name, nil))
	expect(runtime.ActiveMessageCount == 1 && runtime.TotalMessageCount == 1, "%d active", runtime.ActiveMessageCount)
	expect(runtime.SizeInBytes > 0 && !runtime.CreatedAt.IsZero(), "%d bytes", runtime.SizeInBytes)
	listed := 0
	for pager := administration.NewListQueuesPager(nil); pager.More(); {
		for _, queue := range got(pager.NextPage(ctx)).Queues {
			if queue.QueueName == name {
				listed++
			}
		}
	}
	expect(listed == 1, "listed %d times", listed)
	got(administration.DeleteQueue(ctx, name, nil))
	expect(got(administration.GetQueue(ctx, name, nil)) == nil, "it is still there")
}

func adminTopic(ctx context.Context) {
	const name = "made-by-go"
	properties := &admin.TopicProperties{DefaultMessageTimeToLive: ptr("P1D")}
	created := got(administration.CreateTopic(ctx, name, &admin.CreateTopicOptions{Properties: properties}))
	expect(created.TopicName == name, "%v", created.TopicName)
	found := got(administration.GetTopic(ctx, name, nil))
	expect(*found.DefaultMessageTimeToLive == "P1D", "%v", *found.DefaultMessageTimeToLive)
	found.DefaultMessageTimeToLive = ptr("P2D")
	updated := got(administration.UpdateTopic(ctx, name, found.TopicProperties, nil))
	expect(*updated.DefaultMessageTimeToLive == "P2D", "%v", *updated.DefaultMessageTimeToLive)
	runtime := got(administration.GetTopicRuntimeProperties(ctx, name, nil))
	expect(runtime.SubscriptionCount == 0, "%d subscriptions", runtime.SubscriptionCount)
	listed := 0
	for pager := administration.NewListTopicsPager(nil); pager.More(); {
		for _, topic := range got(pager.NextPage(ctx)).Topics {
			if topic.TopicName == name {
				listed++
			}
		}
	}
	expect(listed == 1, "listed %d times", listed)
	got(administration.DeleteTopic(ctx, name, nil))
	expect(got(administration.GetTopic(ctx, name, nil)) == nil, "it is still there")
}

func adminSubscription(ctx context.Context) {
	const name = "by-go"
	properties := &admin.SubscriptionProperties{LockDuration: ptr("PT20S"), RequiresSession: ptr(false)}
	created := got(administration.CreateSubscription(ctx, "news", name, &admin.CreateSubscriptionOptions{Properties: properties}))
	expect(created.TopicName == "news" && created.SubscriptionName == name, "%v", created.SubscriptionName)
	found := got(administration.GetSubscription(ctx, "news", name, nil))
	expect(*found.LockDuration == "PT20S", "%v", *found.LockDuration)
	found.MaxDeliveryCount = ptr(int32(4))
	updated := got(administration.UpdateSubscription(ctx, "news", name, found.SubscriptionProperties, nil))
	expect(*updated.MaxDeliveryCount == 4, "%v", *updated.MaxDeliveryCount)
	runtime := got(administration.GetSubscriptionRuntimeProperties(ctx, "news", name, nil))
	expect(runtime.ActiveMessageCount == 0, "%d active", runtime.ActiveMessageCount)
	names := map[string]bool{}
	for pager := administration.NewListSubscriptionsPager("news", nil); pager.More(); {
		for _, subscription := range got(pager.NextPage(ctx)).Subscriptions {
			names[subscription.SubscriptionName] = true
		}
	}
	expect(names[name] && names["all"] && names["ruled"], "%v", names)
	got(administration.DeleteSubscription(ctx, "news", name, nil))
	expect(got(administration.GetSubscription(ctx, "news", name, nil)) == nil, "it is still there")
}

func adminRule(ctx context.Context) {
	const name = "by-go"
	options := &admin.CreateRuleOptions{
		Name: ptr(name),
		Filter: &admin.SQLFilter{
			Expression: "size > @size",
			Parameters: map[string]any{"@size": int64(3)},
		},
		Action: &admin.SQLAction{Expression: "SET size = 1"},
	}
	created := got(administration.CreateRule(ctx, "news", "ruled", options))
	expect(created.Name == name, "%q", created.Name)
	found := got(administration.GetRule(ctx, "news", "ruled", name, nil))
	filter, isSQL := found.Filter.(*admin.SQLFilter)
	expect(isSQL && filter.Expression == "size > @size", "%v", found.Filter)
	expect(filter.Parameters["@size"] == int64(3), "%T %v", filter.Parameters["@size"], filter.Parameters)
	found.Filter = &admin.CorrelationFilter{Subject: ptr("x")}
	updated := got(administration.UpdateRule(ctx, "news", "ruled", found.RuleProperties))
	correlation, isCorrelation := updated.Filter.(*admin.CorrelationFilter)
	expect(isCorrelation && *correlation.Subject == "x", "%v", updated.Filter)
	names := map[string]bool{}
	for pager := administration.NewListRulesPager("news", "ruled", nil); pager.More(); {
		for _, rule := range got(pager.NextPage(ctx)).Rules {
			names[rule.Name] = true
		}
	}
	expect(names[name] && names["$Default"] && len(names) == 2, "%v", names)
	got(administration.DeleteRule(ctx, "news", "ruled", name, nil))
	expect(got(administration.GetRule(ctx, "news", "ruled", name, nil)) == nil, "it is still there")
}
