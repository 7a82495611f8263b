package main

import (
	"context"
	"fmt"
	"math"
	"time"

	sb "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

var messageCases = []testCase{
	{"send", sendCase},
	{"send-batch", sendBatch},
	{"no-id", noID},
	{"receive-and-delete", receiveAndDelete},
	{"prefetch", nil},
	{"complete", complete},
	{"abandon", abandon},
	{"defer", deferred},
	{"dead-letter", deadLetter},
	{"renew", renew},
	{"peek", peek},
	{"schedule", schedule},
	{"cancel", cancelScheduled},
	{"time-to-live", timeToLive},
}

func send(ctx context.Context, entity string, messages ...*sb.Message) {
	sender := got(client.NewSender(entity, nil))
	for _, message := range messages {
		check(sender.SendMessage(ctx, message, nil))
	}
	check(sender.Close(ctx))
}

func text(body string) *sb.Message {
	return &sb.Message{Body: []byte(body), MessageID: ptr("id of " + body)}
}

// One receiver for the whole of a case.
func work(ctx context.Context, options *sb.ReceiverOptions, use func(*sb.Receiver)) {
	receiver := got(client.NewReceiverForQueue("work", options))
	use(receiver)
	check(receiver.Close(ctx))
}

type messageSource interface {
	ReceiveMessages(context.Context, int, *sb.ReceiveMessagesOptions) ([]*sb.ReceivedMessage, error)
}

func next(ctx context.Context, source messageSource) *sb.ReceivedMessage {
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	messages := got(source.ReceiveMessages(bounded, 1, nil))
	expect(len(messages) == 1, "received %d messages", len(messages))
	return messages[0]
}

func nothing(ctx context.Context, source messageSource) {
	bounded, cancel := context.WithTimeout(ctx, quiet)
	defer cancel()
	messages, _ := source.ReceiveMessages(bounded, 1, nil)
	expect(len(messages) == 0, "there is still a message")
}

func sendCase(ctx context.Context) {
	send(ctx, "work", &sb.Message{
		Body:                  []byte("hello"),
		MessageID:             ptr("one"),
		Subject:               ptr("greeting"),
		CorrelationID:         ptr("related"),
		ContentType:           ptr("text/plain"),
		ApplicationProperties: map[string]any{"number": int64(7), "name": "x", "yes": true},
	})
	work(ctx, nil, func(receiver *sb.Receiver) {
		message := next(ctx, receiver)
		expect(string(message.Body) == "hello", "body %q", message.Body)
		expect(message.MessageID == "one", "id %q", message.MessageID)
		expect(*message.Subject == "greeting", "subject %v", message.Subject)
		expect(*message.CorrelationID == "related", "correlation id")
		expect(*message.ContentType == "text/plain", "content type")
		properties := message.ApplicationProperties
		expect(properties["number"] == int64(7), "number %T %v", properties["number"], properties["number"])
		expect(properties["name"] == "x" && properties["yes"] == true, "properties %v", properties)
		expect(*message.SequenceNumber > 0 && message.EnqueuedTime != nil, "number and time")
		check(receiver.CompleteMessage(ctx, message, nil))
	})
}

func sendBatch(ctx context.Context) {
	sender := got(client.NewSender("work", nil))
	batch := got(sender.NewMessageBatch(ctx, nil))
	for number := range 10 {
		check(batch.AddMessage(text(fmt.Sprint(number)), nil))
	}
	check(sender.SendMessageBatch(ctx, batch, nil))
	check(sender.Close(ctx))
	work(ctx, nil, func(receiver *sb.Receiver) {
		for number := range 10 {
			message := next(ctx, receiver)
			expect(string(message.Body) == fmt.Sprint(number), "%q instead of %d", message.Body, number)
			check(receiver.CompleteMessage(ctx, message, nil))
		}
	})
}

func noID(ctx context.Context) {
	send(ctx, "work", &sb.Message{Body: []byte("anonymous")})
	work(ctx, nil, func(receiver *sb.Receiver) {
		message := next(ctx, receiver)
		check(receiver.CompleteMessage(ctx, message, nil))
		expect(message.MessageID != "", "it has no id")
	})
}

func receiveAndDelete(ctx context.Context) {
	send(ctx, "work", text("fleeting"))
	options := &sb.ReceiverOptions{ReceiveMode: sb.ReceiveModeReceiveAndDelete}
	work(ctx, options, func(receiver *sb.Receiver) {
		expect(string(next(ctx, receiver).Body) == "fleeting", "another message")
		nothing(ctx, receiver)
	})
}

func complete(ctx context.Context) {
	send(ctx, "work", text("done"))
	work(ctx, nil, func(receiver *sb.Receiver) {
		check(receiver.CompleteMessage(ctx, next(ctx, receiver), nil))
		nothing(ctx, receiver)
	})
}

func abandon(ctx context.Context) {
	send(ctx, "work", text("again"))
	work(ctx, nil, func(receiver *sb.Receiver) {
		first := next(ctx, receiver)
		options := &sb.AbandonMessageOptions{PropertiesToModify: map[string]any{"tried": "once"}}
		check(receiver.AbandonMessage(ctx, first, options))
		second := next(ctx, receiver)
		expect(second.DeliveryCount == first.DeliveryCount+1, "%d after %d", second.DeliveryCount, first.DeliveryCount)
		expect(second.ApplicationProperties["tried"] == "once", "%v", second.ApplicationProperties)
		check(receiver.CompleteMessage(ctx, second, nil))
	})
}

func deferred(ctx context.Context) {
	send(ctx, "work", text("later"))
	work(ctx, nil, func(receiver *sb.Receiver) {
		message := next(ctx, receiver)
		check(receiver.DeferMessage(ctx, message, nil))
		nothing(ctx, receiver)
		numbers := []int64{*message.SequenceNumber}
		again := got(receiver.ReceiveDeferredMessages(ctx, numbers, nil))
		expect(len(again) == 1 && string(again[0].Body) == "later", "received %d", len(again))
		expect(again[0].State == sb.MessageStateDeferred, "state %v", again[0].State)
		check(receiver.CompleteMessage(ctx, again[0], nil))
	})
}

func deadLetter(ctx context.Context) {
	send(ctx, "work", text("bad"))
	work(ctx, nil, func(receiver *sb.Receiver) {
		options := &sb.DeadLetterOptions{Reason: ptr("because"), ErrorDescription: ptr("in detail")}
		check(receiver.DeadLetterMessage(ctx, next(ctx, receiver), options))
	})
	dead := &sb.ReceiverOptions{SubQueue: sb.SubQueueDeadLetter}
	work(ctx, dead, func(receiver *sb.Receiver) {
		message := next(ctx, receiver)
		expect(string(message.Body) == "bad", "body %q", message.Body)
		expect(*message.DeadLetterReason == "because", "reason")
		expect(*message.DeadLetterErrorDescription == "in detail", "description")
		check(receiver.CompleteMessage(ctx, message, nil))
	})
}

func renew(ctx context.Context) {
	send(ctx, "work", text("slow"))
	work(ctx, nil, func(receiver *sb.Receiver) {
		message := next(ctx, receiver)
		before := *message.LockedUntil
		time.Sleep(50 * time.Millisecond)
		check(receiver.RenewMessageLock(ctx, message, nil))
		expect(message.LockedUntil.After(before), "%v is not after %v", message.LockedUntil, before)
		check(receiver.CompleteMessage(ctx, message, nil))
	})
}

func peek(ctx context.Context) {
	send(ctx, "work", text("seen"), text("seen too"))
	work(ctx, nil, func(receiver *sb.Receiver) {
		seen := got(receiver.PeekMessages(ctx, 10, nil))
		expect(len(seen) == 2 && string(seen[1].Body) == "seen too", "%d messages", len(seen))
		for range seen {
			message := next(ctx, receiver)
			expect(message.DeliveryCount == 1, "peeking counts: %d", message.DeliveryCount)
			check(receiver.CompleteMessage(ctx, message, nil))
		}
	})
}

func schedule(ctx context.Context) {
	sender := got(client.NewSender("work", nil))
	due := time.Now().Add(3 * time.Second)
	message := text("in time")
	message.TimeToLive = ptr(time.Hour)
	numbers := got(sender.ScheduleMessages(ctx, []*sb.Message{message}, due, nil))
	expect(len(numbers) == 1 && numbers[0] > 0, "numbers %v", numbers)
	check(sender.Close(ctx))
	work(ctx, nil, func(receiver *sb.Receiver) {
		message := next(ctx, receiver)
		expect(!time.Now().Before(due.Add(-500*time.Millisecond)), "it came too early")
		expect(string(message.Body) == "in time", "body %q", message.Body)
		expect(*message.TimeToLive == time.Hour, "TTL %v", *message.TimeToLive)
		check(receiver.CompleteMessage(ctx, message, nil))
	})
}

func cancelScheduled(ctx context.Context) {
	sender := got(client.NewSender("work", nil))
	due := time.Now().Add(2 * time.Second)
	numbers := got(sender.ScheduleMessages(ctx, []*sb.Message{text("never")}, due, nil))
	check(sender.CancelScheduledMessages(ctx, numbers, nil))
	check(sender.Close(ctx))
	time.Sleep(time.Until(due))
	work(ctx, nil, func(receiver *sb.Receiver) { nothing(ctx, receiver) })
}

func timeToLive(ctx context.Context) {
	// Beyond 49 days this SDK sends another TTL than it was given: the milliseconds
	// modulo 2^32, and no expiry that would tell.
	for _, days := range []int{1, 49} {
		wanted := time.Duration(days) * 24 * time.Hour
		message := text("perishable")
		message.TimeToLive = &wanted
		send(ctx, "work", message)
		work(ctx, nil, func(receiver *sb.Receiver) {
			message := next(ctx, receiver)
			check(receiver.CompleteMessage(ctx, message, nil))
			left := message.ExpiresAt.Sub(*message.EnqueuedTime)
			expect(math.Abs(float64(left-wanted)) < float64(time.Second), "expires after %v instead of %v", left, wanted)
		})
	}
}
