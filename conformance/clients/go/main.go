// Every case of ../cases.py, by the SDK for Go. ../README.md says what it is told and
// what it prints.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	sb "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/coder/websocket"
)

// Bounds against hanging; not waited out where the bus answers.
const patience = 20 * time.Second

// How long nothing must come before there is taken to be nothing.
const quiet = 1500 * time.Millisecond

var (
	client         *sb.Client
	administration *admin.Client
)

type verdict struct {
	Case string `json:"case"`
	Ok   *bool  `json:"ok"`
	Text string `json:"text"`
}

func main() {
	var err error
	client, err = sb.NewClientFromConnectionString(messaging(), options())
	check(err)
	administration, err = admin.NewClientFromConnectionString(os.Getenv("SB_CONNECTION_STRING"), nil)
	check(err)
	for _, one := range messageCases {
		tell(one)
	}
	for _, one := range sessionCases {
		tell(one)
	}
	for _, one := range topicCases {
		tell(one)
	}
	for _, one := range administrationCases {
		tell(one)
	}
	check(client.Close(context.Background()))
}

// Over TLS the Endpoint has its port, which this SDK then takes for a part of the
// name that the certificate is for.
func messaging() string {
	if os.Getenv("SB_TRANSPORT") == "plain" {
		return os.Getenv("SB_CONNECTION_STRING")
	}
	return fmt.Sprintf(
		"Endpoint=sb://%s:%s;SharedAccessKeyName=%s;SharedAccessKey=%s",
		os.Getenv("SB_HOST"), os.Getenv("SB_PORT"), os.Getenv("SB_KEY_NAME"), os.Getenv("SB_KEY"),
	)
}

// The SDK leaves WebSockets to whoever uses it, and says where to connect.
func options() *sb.ClientOptions {
	transport := os.Getenv("SB_TRANSPORT")
	if transport != "ws" && transport != "wss" {
		return nil
	}
	return &sb.ClientOptions{
		NewWebSocketConn: func(ctx context.Context, arguments sb.NewWebSocketConnArgs) (net.Conn, error) {
			address := arguments.Host
			if transport == "ws" {
				address = "ws" + strings.TrimPrefix(address, "wss")
			}
			connection, _, err := websocket.Dial(ctx, address, &websocket.DialOptions{Subprotocols: []string{"amqp"}})
			if err != nil {
				return nil, err
			}
			return websocket.NetConn(context.Background(), connection, websocket.MessageBinary), nil
		},
	}
}

type testCase struct {
	name string
	run  func(ctx context.Context)
}

func tell(one testCase) {
	ok, text := outcome(one)
	line, _ := json.Marshal(verdict{Case: one.name, Ok: ok, Text: text})
	fmt.Println(string(line))
}

func outcome(one testCase) (ok *bool, text string) {
	if one.run == nil {
		return nil, "the SDK has no call for it"
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	good := false
	defer func() {
		if wrong := recover(); wrong != nil {
			text = fmt.Sprint(wrong)
		}
	}()
	ok = &good
	one.run(ctx)
	good = true
	return ok, ""
}

// What fails ends its case.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

func got[T any](value T, err error) T {
	check(err)
	return value
}

func expect(is bool, format string, values ...any) {
	if !is {
		panic(fmt.Sprintf(format, values...))
	}
}

func ptr[T any](value T) *T {
	return &value
}
