// Takes numbers from seqsvr. README.md in this directory says how to generate the package `sequence`.
package main

import (
	"context"
	"fmt"
	"log"
	"math/rand"
	"os"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	pb "example.com/seqsvr-example/sequence"
)

// details returns the details of an error in addition to code and text: why, and how long to wait before a retry.
func details(err error) (reason string, pause time.Duration) {
	for _, detail := range status.Convert(err).Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			reason = detail.GetReason()
		case *errdetails.RetryInfo:
			pause = detail.GetRetryDelay().AsDuration()
		}
	}
	return reason, pause
}

// callWithRetry calls a method and retries temporary errors until the context ends. A number that an unanswered call may
// have taken is skipped, never given twice, so a retry is always safe.
func callWithRetry(ctx context.Context, call func(context.Context) error) error {
	for {
		err := call(ctx)
		reason, pause := details(err)
		code := status.Code(err)
		overloaded := code == codes.ResourceExhausted && reason == "OVERLOADED"
		if code != codes.Unavailable && !overloaded {
			return err
		}
		if pause == 0 {
			pause = 50 * time.Millisecond
		}
		// Plus a little random time, so that clients do not retry together.
		pause += time.Duration(rand.Int63n(int64(pause)/2 + 1))
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

func run(address, name string) error {
	// One connection for the whole process: it carries many calls at once, and reconnects automatically.
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	client := pb.NewSequenceClient(connection)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	key := []byte(name)

	// The next number of one key. A uid (NextRequest_Uid) belongs to the namespace `default`, a key to `keys`.
	next := func(namespace string) (uint64, error) {
		var answer *pb.NextResponse
		err := callWithRetry(ctx, func(ctx context.Context) (err error) {
			request := &pb.NextRequest{Namespace: namespace, KeyKind: &pb.NextRequest_Key{Key: key}}
			answer, err = client.Next(ctx, request)
			return err
		})
		return answer.GetFirst(), err
	}
	first, err := next("")
	if err != nil {
		return err
	}
	fmt.Println("next", first)

	// Many keys in one call: one, five and one of them. Each item has an answer or an error of its own.
	keys := [][]byte{[]byte(name + "/a"), []byte(name + "/b"), []byte(name + "/c")}
	var many *pb.NextManyResponse
	err = callWithRetry(ctx, func(ctx context.Context) (err error) {
		many, err = client.NextMany(ctx, &pb.NextManyRequest{Keys: keys, Counts: []uint32{1, 5, 1}})
		return err
	})
	if err != nil {
		return err
	}
	failed := map[int]string{}
	for _, item := range many.GetErrors() {
		failed[int(item.GetIndex())] = item.GetMessage()
	}
	for i, first := range many.GetFirsts() {
		if message, ok := failed[i]; ok {
			fmt.Println("many", string(keys[i]), message)
			continue
		}
		fmt.Println("many", string(keys[i]), first, "to", many.GetLasts()[i])
	}

	// The last number given out, without taking one.
	var current *pb.CurrentResponse
	err = callWithRetry(ctx, func(ctx context.Context) (err error) {
		current, err = client.Current(ctx, &pb.CurrentRequest{KeyKind: &pb.CurrentRequest_Key{Key: key}})
		return err
	})
	if err != nil {
		return err
	}
	fmt.Println("current", current.GetValue())

	// Every later number is above 1000.
	var raised *pb.RaiseToResponse
	err = callWithRetry(ctx, func(ctx context.Context) (err error) {
		request := &pb.RaiseToRequest{KeyKind: &pb.RaiseToRequest_Key{Key: key}, Value: 1000}
		raised, err = client.RaiseTo(ctx, request)
		return err
	})
	if err != nil {
		return err
	}
	above, err := next("")
	if err != nil {
		return err
	}
	fmt.Println("raised to", raised.GetValue(), "next", above)

	// An error has a code, a text that says what to do, and a reason that a program can rely on.
	if _, err = next("nowhere"); err != nil {
		reason, _ := details(err)
		fmt.Println("rejected", reason, status.Code(err), status.Convert(err).Message())
	}
	return nil
}

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: go run . 127.0.0.1:7700 alice")
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}
