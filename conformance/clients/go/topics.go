package main

import (
	"context"

	sb "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

var topicCases = []testCase{
	{"topic", topic},
	{"rule-sql", ruleSQL},
	{"rule-correlation", ruleCorrelation},
	{"rule-action", ruleAction},
}

// One receiver of a subscription of `news` for the whole of a case.
func read(ctx context.Context, subscription string, use func(*sb.Receiver)) {
	receiver := got(client.NewReceiverForSubscription("news", subscription, nil))
	use(receiver)
	check(receiver.Close(ctx))
}

func topic(ctx context.Context) {
	message := text("extra")
	message.Subject = ptr("headline")
	send(ctx, "news", message)
	for _, subscription := range []string{"all", "ruled"} {
		read(ctx, subscription, func(receiver *sb.Receiver) {
			message := next(ctx, receiver)
			expect(string(message.Body) == "extra" && *message.Subject == "headline", "body %q", message.Body)
			check(receiver.CompleteMessage(ctx, message, nil))
		})
	}
}

// With that rule alone; afterwards everything is as before.
func ruled(ctx context.Context, rule admin.CreateRuleOptions, use func()) {
	rule.Name = ptr("ours")
	got(administration.CreateRule(ctx, "news", "ruled", &rule))
	got(administration.DeleteRule(ctx, "news", "ruled", "$Default", nil))
	use()
	everything := &admin.CreateRuleOptions{Name: ptr("$Default"), Filter: &admin.TrueFilter{}}
	got(administration.CreateRule(ctx, "news", "ruled", everything))
	got(administration.DeleteRule(ctx, "news", "ruled", "ours", nil))
	read(ctx, "all", func(receiver *sb.Receiver) {
		for {
			message := next(ctx, receiver)
			check(receiver.CompleteMessage(ctx, message, nil))
			if string(message.Body) == "last" {
				return
			}
		}
	})
}

func publish(ctx context.Context, body string, color string) {
	message := text(body)
	message.CorrelationID = ptr(color)
	message.ApplicationProperties = map[string]any{"color": color, "size": int64(len(body))}
	send(ctx, "news", message)
}

// Of three messages the blue one is selected, and nothing else.
func selects(ctx context.Context, look func(*sb.ReceivedMessage)) {
	publish(ctx, "no", "red")
	publish(ctx, "yes", "blue")
	publish(ctx, "last", "green")
	read(ctx, "ruled", func(receiver *sb.Receiver) {
		message := next(ctx, receiver)
		expect(string(message.Body) == "yes", "selected %q", message.Body)
		look(message)
		check(receiver.CompleteMessage(ctx, message, nil))
		nothing(ctx, receiver)
	})
}

func ruleSQL(ctx context.Context) {
	filter := &admin.SQLFilter{
		Expression: "color = @color AND size > 2 AND sys.MessageId LIKE 'id of%'",
		Parameters: map[string]any{"@color": "blue"},
	}
	ruled(ctx, admin.CreateRuleOptions{Filter: filter}, func() {
		selects(ctx, func(*sb.ReceivedMessage) {})
	})
}

func ruleCorrelation(ctx context.Context) {
	filter := &admin.CorrelationFilter{
		CorrelationID:         ptr("blue"),
		ApplicationProperties: map[string]any{"color": "blue"},
	}
	ruled(ctx, admin.CreateRuleOptions{Filter: filter}, func() {
		selects(ctx, func(*sb.ReceivedMessage) {})
	})
}

func ruleAction(ctx context.Context) {
	rule := admin.CreateRuleOptions{
		Filter: &admin.SQLFilter{Expression: "color = 'blue'"},
		Action: &admin.SQLAction{Expression: "SET sys.Label = 'marked'; SET seen = TRUE; REMOVE size"},
	}
	ruled(ctx, rule, func() {
		selects(ctx, func(message *sb.ReceivedMessage) {
			expect(*message.Subject == "marked", "subject %v", message.Subject)
			expect(message.ApplicationProperties["seen"] == true, "%v", message.ApplicationProperties)
			_, kept := message.ApplicationProperties["size"]
			expect(!kept, "size is still there")
		})
	})
}
