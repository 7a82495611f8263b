// What every client is asked to do, by the SDK for JavaScript.
//
// It is copied beside the packages that npm fetched for it. The authority of the bus is
// trusted by NODE_EXTRA_CA_CERTS.

const assert = require("node:assert/strict");
const {
  ServiceBusAdministrationClient,
  ServiceBusClient,
} = require("@azure/service-bus");

const WAIT_MS = 10_000;
const CASE_MS = 60_000;
const DAY_MS = 86_400_000;

const transport = process.env.SB_TRANSPORT;
const client = new ServiceBusClient(process.env.SB_CONNECTION_STRING, {
  webSocketOptions:
    transport === "wss" ? { webSocket: require("ws") } : undefined,
  retryOptions: { maxRetries: 1, retryDelayInMs: 500 },
});
// Administration is looked for at the port of the endpoint over HTTPS, whatever the
// messages go over.
const admin = new ServiceBusAdministrationClient(
  process.env.SB_TLS_CONNECTION_STRING.replace(
    "localhost",
    `localhost:${process.env.SB_PORT}`,
  ),
);

const cases = [];
const add = (name, run) => cases.push([name, run]);
const tell = (name, ok, text = "") =>
  console.log(JSON.stringify({ case: name, ok, text }));
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

async function using(closable, use) {
  try {
    return await use(closable);
  } finally {
    await closable.close();
  }
}

const send = (entity, ...messages) =>
  using(client.createSender(entity), async (sender) => {
    for (const message of messages) await sender.sendMessages(message);
  });

async function receive(receiver, count = 1) {
  const found = [];
  const deadline = Date.now() + 2 * WAIT_MS;
  while (found.length < count) {
    assert.ok(Date.now() < deadline, `${found.length} of ${count} came`);
    found.push(
      ...(await receiver.receiveMessages(count - found.length, {
        maxWaitTimeInMs: 2_000,
      })),
    );
  }
  return found;
}

const work = (use, options) => using(client.createReceiver("work", options), use);

const all = { fromSequenceNumber: require("long").fromNumber(1) };

async function nothingIn(receiver) {
  assert.deepEqual(await receiver.peekMessages(10, all), []);
}

const bodies = (messages) => messages.map((message) => message.body);

async function completeAll(receiver, messages) {
  for (const message of messages) await receiver.completeMessage(message);
}

add("send", async () => {
  await send("work", {
    body: "hello",
    messageId: "one",
    subject: "s",
    applicationProperties: { n: 7 },
  });
  await work(async (receiver) => {
    const [message] = await receive(receiver);
    assert.equal(message.body, "hello");
    assert.equal(message.messageId, "one");
    assert.equal(message.subject, "s");
    assert.equal(message.applicationProperties.n, 7);
    await receiver.completeMessage(message);
  });
});

add("send-batch", async () => {
  await using(client.createSender("work"), async (sender) => {
    const batch = await sender.createMessageBatch();
    for (const body of "01234") assert.ok(batch.tryAddMessage({ body }));
    await sender.sendMessages(batch);
  });
  await work(async (receiver) => {
    const messages = await receive(receiver, 5);
    assert.deepEqual(bodies(messages), [..."01234"]);
    await completeAll(receiver, messages);
  });
});

add("no-id", async () => {
  await send("work", { body: "nameless" });
  await work(async (receiver) => {
    const [message] = await receive(receiver);
    assert.ok(message.messageId);
    await receiver.completeMessage(message);
    await nothingIn(receiver);
  });
});

add("receive-and-delete", async () => {
  await send("work", { body: "x" });
  await work(
    async (receiver) => {
      assert.deepEqual(bodies(await receive(receiver)), ["x"]);
      await nothingIn(receiver);
    },
    { receiveMode: "receiveAndDelete" },
  );
});

add("prefetch", async () => {
  await send("ahead", { body: "0" }, { body: "1" }, { body: "2" });
  await using(client.createReceiver("ahead"), async (receiver) => {
    // A subscription gives its credit as the link is made.
    const found = [];
    await new Promise((done, failed) => {
      receiver.subscribe(
        {
          processMessage: async (message) => {
            found.push(message.body);
            if (found.length === 3) done();
          },
          processError: async (event) => failed(event.error),
        },
        { maxConcurrentCalls: 10 },
      );
    });
    assert.deepEqual(found.sort(), ["0", "1", "2"]);
    await pause(300);
  });
});

add("complete", async () => {
  await send("work", { body: "x" });
  await work(async (receiver) => {
    await completeAll(receiver, await receive(receiver));
    await nothingIn(receiver);
  });
});

add("abandon", async () => {
  await send("work", { body: "x" });
  await work(async (receiver) => {
    const [message] = await receive(receiver);
    assert.equal(message.deliveryCount, 0);
    await receiver.abandonMessage(message);
    const [again] = await receive(receiver);
    assert.equal(again.deliveryCount, 1);
    await receiver.completeMessage(again);
  });
});

add("defer", async () => {
  await send("work", { body: "x" });
  await work(async (receiver) => {
    const [message] = await receive(receiver);
    await receiver.deferMessage(message);
    const [deferred] = await receiver.receiveDeferredMessages(message.sequenceNumber);
    assert.equal(deferred.body, "x");
    await receiver.completeMessage(deferred);
    await nothingIn(receiver);
  });
});

add("dead-letter", async () => {
  await send("work", { body: "x" });
  await work(async (receiver) => {
    const [message] = await receive(receiver);
    await receiver.deadLetterMessage(message, {
      deadLetterReason: "why",
      deadLetterErrorDescription: "what",
    });
  });
  await work(
    async (receiver) => {
      const [letter] = await receive(receiver);
      assert.equal(letter.deadLetterReason, "why");
      assert.equal(letter.deadLetterErrorDescription, "what");
      await receiver.completeMessage(letter);
    },
    { subQueueType: "deadLetter" },
  );
});

add("renew", async () => {
  await send("work", { body: "x" });
  await work(async (receiver) => {
    const [message] = await receive(receiver);
    const before = message.lockedUntilUtc;
    await pause(1_100);
    assert.ok((await receiver.renewMessageLock(message)) > before);
    await receiver.completeMessage(message);
  });
});

add("peek", async () => {
  await send("work", { body: "a" }, { body: "b" });
  await work(async (receiver) => {
    assert.deepEqual(bodies(await receiver.peekMessages(5, all)), ["a", "b"]);
    await completeAll(receiver, await receive(receiver, 2));
  });
});

add("schedule", async () => {
  const due = new Date(Date.now() + 2_000);
  await using(client.createSender("work"), async (sender) => {
    const [number] = await sender.scheduleMessages(
      { body: "later", timeToLive: 300_000 },
      due,
    );
    assert.ok(number.greaterThan(0));
  });
  await work(async (receiver) => {
    const [message] = await receive(receiver);
    assert.ok(message.enqueuedTimeUtc >= due);
    assert.equal(message.timeToLive, 300_000);
    await receiver.completeMessage(message);
  });
});

add("cancel", async () => {
  await using(client.createSender("work"), async (sender) => {
    const due = new Date(Date.now() + 3_600_000);
    await sender.cancelScheduledMessages(
      await sender.scheduleMessages({ body: "never" }, due),
    );
  });
  await work(nothingIn);
});

add("time-to-live", async () => {
  await send("work", { body: "x", timeToLive: 3_600_000 });
  await work(async (receiver) => {
    const [message] = await receive(receiver);
    assert.equal(message.timeToLive, 3_600_000);
    assert.equal(message.expiresAtUtc - message.enqueuedTimeUtc, 3_600_000);
    await receiver.completeMessage(message);
  });
  // The SDK cuts what it sends at 49 days; the entity's own life is told.
  await admin.createQueue("lasting", { defaultMessageTimeToLive: "P60D" });
  await send("lasting", { body: "x" });
  await using(client.createReceiver("lasting"), async (receiver) => {
    const [message] = await receive(receiver);
    assert.equal(message.timeToLive, 60 * DAY_MS);
    assert.equal(message.expiresAtUtc - message.enqueuedTimeUtc, 60 * DAY_MS);
    await receiver.completeMessage(message);
  });
  await admin.deleteQueue("lasting");
});

const inSession = (sessionId, ...texts) =>
  send("sessions", ...texts.map((body) => ({ body, sessionId })));

const accepted = async (sessionId, use) =>
  using(await client.acceptSession("sessions", sessionId), use);

add("session-named", async () => {
  await inSession("a", "1", "2");
  await inSession("b", "3");
  await accepted("b", async (receiver) => {
    const [message] = await receive(receiver);
    assert.equal(message.body, "3");
    assert.equal(message.sessionId, "b");
    await receiver.completeMessage(message);
  });
  await accepted("a", async (receiver) => {
    const messages = await receive(receiver, 2);
    assert.deepEqual(bodies(messages), ["1", "2"]);
    await completeAll(receiver, messages);
  });
});

add("session-next", async () => {
  await inSession("next", "x");
  await using(await client.acceptNextSession("sessions"), async (receiver) => {
    assert.equal(receiver.sessionId, "next");
    await completeAll(receiver, await receive(receiver));
  });
});

add("session-state", async () => {
  await accepted("kept", async (receiver) => {
    assert.equal(await receiver.getSessionState(), null);
    await receiver.setSessionState({ step: 3 });
    assert.deepEqual(await receiver.getSessionState(), { step: 3 });
    await receiver.setSessionState(null);
    assert.equal(await receiver.getSessionState(), null);
  });
});

add("session-renew", async () => {
  await accepted("long", async (receiver) => {
    const before = receiver.sessionLockedUntilUtc;
    await pause(1_100);
    assert.ok((await receiver.renewSessionLock()) > before);
  });
});

// All that the subscription has; nothing more is on its way.
const subscribed = (name) =>
  using(client.createReceiver("news", name), async (receiver) => {
    const messages = await receiver.receiveMessages(10, { maxWaitTimeInMs: 2_000 });
    await completeAll(receiver, messages);
    return messages;
  });

add("topic", async () => {
  await send("news", { body: "x", subject: "s" });
  const [message] = await subscribed("all");
  assert.equal(message.body, "x");
  assert.equal(message.subject, "s");
  assert.equal((await subscribed("ruled")).length, 1);
});

async function onlyRule(name, filter, action) {
  const rules = client.createRuleManager("news", "ruled");
  for await (const rule of rules.listRules()) await rules.deleteRule(rule.name);
  await rules.createRule(name, filter, action);
}

add("rule-sql", async () => {
  await onlyRule("large", {
    sqlExpression: "amount > 100 AND sys.Label LIKE 'o%'",
  });
  for (const amount of [50, 500]) {
    await send("news", {
      body: String(amount),
      subject: "order",
      applicationProperties: { amount },
    });
  }
  assert.deepEqual(bodies(await subscribed("ruled")), ["500"]);
});

add("rule-correlation", async () => {
  await onlyRule("paid", { subject: "paid" });
  await send("news", { body: "yes", subject: "paid" }, { body: "no", subject: "due" });
  assert.deepEqual(bodies(await subscribed("ruled")), ["yes"]);
});

add("rule-action", async () => {
  await onlyRule(
    "mark",
    { sqlExpression: "1=1" },
    { sqlExpression: "SET marked = 'yes'" },
  );
  await send("news", { body: "x" });
  const [message] = await subscribed("ruled");
  assert.equal(message.applicationProperties.marked, "yes");
});

async function names(listed) {
  const found = [];
  for await (const one of listed) found.push(one.name ?? one.subscriptionName);
  return found;
}

add("admin-queue", async () => {
  await admin.createQueue("made", { maxDeliveryCount: 4 });
  const queue = await admin.getQueue("made");
  assert.equal(queue.maxDeliveryCount, 4);
  assert.ok((await names(admin.listQueues())).includes("made"));
  queue.maxDeliveryCount = 6;
  await admin.updateQueue(queue);
  assert.equal((await admin.getQueue("made")).maxDeliveryCount, 6);
  await send("made", { body: "x" });
  const runtime = await admin.getQueueRuntimeProperties("made");
  assert.equal(runtime.activeMessageCount, 1);
  await admin.deleteQueue("made");
  assert.equal(await admin.queueExists("made"), false);
});

add("admin-topic", async () => {
  await admin.createTopic("made");
  const topic = await admin.getTopic("made");
  assert.ok((await names(admin.listTopics())).includes("made"));
  topic.defaultMessageTimeToLive = "PT3H";
  await admin.updateTopic(topic);
  assert.equal((await admin.getTopic("made")).defaultMessageTimeToLive, "PT3H");
  await admin.deleteTopic("made");
  assert.equal(await admin.topicExists("made"), false);
});

add("admin-subscription", async () => {
  await admin.createSubscription("news", "made", { maxDeliveryCount: 4 });
  const subscription = await admin.getSubscription("news", "made");
  assert.ok((await names(admin.listSubscriptions("news"))).includes("made"));
  subscription.maxDeliveryCount = 6;
  await admin.updateSubscription(subscription);
  const found = await admin.getSubscription("news", "made");
  assert.equal(found.maxDeliveryCount, 6);
  await admin.deleteSubscription("news", "made");
  assert.equal(await admin.subscriptionExists("news", "made"), false);
});

add("admin-rule", async () => {
  await admin.createSubscription("news", "rules");
  assert.deepEqual(await names(admin.listRules("news", "rules")), ["$Default"]);
  await admin.createRule("news", "rules", "one", { sqlExpression: "a = 1" });
  const rule = await admin.getRule("news", "rules", "one");
  rule.filter = { sqlExpression: "a = 2" };
  await admin.updateRule("news", "rules", rule);
  const found = await admin.getRule("news", "rules", "one");
  assert.equal(found.filter.sqlExpression, "a = 2");
  await admin.deleteRule("news", "rules", "$Default");
  await admin.deleteSubscription("news", "rules");
});

const bounded = (promise) =>
  Promise.race([
    promise,
    pause(CASE_MS).then(() => {
      throw new Error(`not done in ${CASE_MS / 1000} s`);
    }),
  ]);

async function main() {
  for (const [name, run] of cases) {
    try {
      await bounded(run());
      tell(name, true);
    } catch (error) {
      console.error(transport, name, error);
      tell(name, false, String(error?.message ?? error).slice(0, 300));
    }
  }
  // Timers of the SDK would keep the process.
  process.exit(0);
}

main();
