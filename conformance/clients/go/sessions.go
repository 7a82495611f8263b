package main

import (
	"context"
	"time"

	sb "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

var sessionCases = []testCase{
	{"session-named", sessionNamed},
	{"session-next", sessionNext},
	{"session-state", sessionState},
	{"session-renew", sessionRenew},
}

func sendTo(ctx context.Context, session string, bodies ...string) {
	for _, body := range bodies {
		message := text(body)
		message.SessionID = &session
		send(ctx, "sessions", message)
	}
}

func named(ctx context.Context, session string) *sb.SessionReceiver {
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	receiver := got(client.AcceptSessionForQueue(bounded, "sessions", session, nil))
	expect(receiver.SessionID() == session, "session %q", receiver.SessionID())
	return receiver
}

func sessionNamed(ctx context.Context) {
	sendTo(ctx, "other", "not for us")
	sendTo(ctx, "mine", "first", "second")
	receiver := named(ctx, "mine")
	for _, body := range []string{"first", "second"} {
		message := next(ctx, receiver)
		expect(string(message.Body) == body && *message.SessionID == "mine", "%q of %q", message.Body, *message.SessionID)
		check(receiver.CompleteMessage(ctx, message, nil))
	}
	nothing(ctx, receiver)
	check(receiver.Close(ctx))
	other := named(ctx, "other")
	check(other.CompleteMessage(ctx, next(ctx, other), nil))
	check(other.Close(ctx))
}

func sessionNext(ctx context.Context) {
	sendTo(ctx, "waiting", "for anybody")
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	receiver := got(client.AcceptNextSessionForQueue(bounded, "sessions", nil))
	expect(receiver.SessionID() == "waiting", "session %q", receiver.SessionID())
	message := next(ctx, receiver)
	expect(string(message.Body) == "for anybody", "body %q", message.Body)
	check(receiver.CompleteMessage(ctx, message, nil))
	check(receiver.Close(ctx))
}

func sessionState(ctx context.Context) {
	receiver := named(ctx, "stateful")
	expect(got(receiver.GetSessionState(ctx, nil)) == nil, "there is a state already")
	check(receiver.SetSessionState(ctx, []byte("half way"), nil))
	state := got(receiver.GetSessionState(ctx, nil))
	expect(string(state) == "half way", "state %q", state)
	check(receiver.SetSessionState(ctx, nil, nil))
	expect(len(got(receiver.GetSessionState(ctx, nil))) == 0, "the state is not cleared")
	check(receiver.Close(ctx))
}

func sessionRenew(ctx context.Context) {
	receiver := named(ctx, "long")
	before := receiver.LockedUntil()
	expect(before.After(time.Now()), "locked until %v", before)
	time.Sleep(50 * time.Millisecond)
	check(receiver.RenewSessionLock(ctx, nil))
	expect(receiver.LockedUntil().After(before), "%v is not after %v", receiver.LockedUntil(), before)
	check(receiver.Close(ctx))
}
