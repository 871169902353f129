// acceptor CFG STORE: store memory or file. Acknowledges and fills every NewOrderSingle; nothing is logged.
package main

import (
	"fmt"
	"os"
	"strconv"
	"sync/atomic"

	"github.com/quickfixgo/quickfix"
	"github.com/quickfixgo/quickfix/store/file"
)

const (
	msgType   = quickfix.Tag(35)
	avgPx     = quickfix.Tag(6)
	clOrdID   = quickfix.Tag(11)
	cumQty    = quickfix.Tag(14)
	execID    = quickfix.Tag(17)
	lastPx    = quickfix.Tag(31)
	lastQty   = quickfix.Tag(32)
	orderID   = quickfix.Tag(37)
	orderQty  = quickfix.Tag(38)
	ordStatus = quickfix.Tag(39)
	side      = quickfix.Tag(54)
	symbol    = quickfix.Tag(55)
	execType  = quickfix.Tag(150)
	leavesQty = quickfix.Tag(151)
)

// exchange acknowledges and fills.
type exchange struct{ orders atomic.Int64 }

func (*exchange) OnCreate(quickfix.SessionID)                                                  {}
func (*exchange) OnLogon(quickfix.SessionID)                                                   {}
func (*exchange) OnLogout(quickfix.SessionID)                                                  {}
func (*exchange) ToAdmin(*quickfix.Message, quickfix.SessionID)                                {}
func (*exchange) ToApp(*quickfix.Message, quickfix.SessionID) error                            { return nil }
func (*exchange) FromAdmin(*quickfix.Message, quickfix.SessionID) quickfix.MessageRejectError { return nil }

func (e *exchange) FromApp(order *quickfix.Message, session quickfix.SessionID) quickfix.MessageRejectError {
	kind, err := order.Header.GetString(msgType)
	if err != nil {
		return err
	}
	if kind != "D" {
		return nil
	}
	number := strconv.FormatInt(e.orders.Add(1), 10)
	ack, err := report(order, number, "0", "0")
	if err != nil {
		return err
	}
	fill, err := report(order, number, "F", "2")
	if err != nil {
		return err
	}
	for _, message := range []*quickfix.Message{ack, fill} {
		if failed := quickfix.SendToTarget(message, session); failed != nil {
			fmt.Fprintln(os.Stderr, failed)
		}
	}
	return nil
}

func report(order *quickfix.Message, number, kind, status string) (*quickfix.Message, quickfix.MessageRejectError) {
	quantity, err := order.Body.GetString(orderQty)
	if err != nil {
		return nil, err
	}
	message := quickfix.NewMessage()
	message.Header.SetString(msgType, "8")
	body := &message.Body
	body.SetString(orderID, number)
	body.SetString(execID, number+kind)
	body.SetString(execType, kind)
	body.SetString(ordStatus, status)
	if kind == "F" {
		body.SetString(leavesQty, "0")
		body.SetString(cumQty, quantity)
		body.SetString(avgPx, "1.25")
		body.SetString(lastQty, quantity)
		body.SetString(lastPx, "1.25")
	} else {
		body.SetString(leavesQty, quantity)
		body.SetString(cumQty, "0")
		body.SetString(avgPx, "0")
	}
	for _, tag := range []quickfix.Tag{clOrdID, side, symbol} {
		value, err := order.Body.GetString(tag)
		if err != nil {
			return nil, err
		}
		body.SetString(tag, value)
	}
	return message, nil
}

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(path, store string) error {
	text, err := os.Open(path)
	if err != nil {
		return err
	}
	settings, err := quickfix.ParseSettings(text)
	if err != nil {
		return err
	}
	stores := quickfix.NewMemoryStoreFactory()
	if store == "file" {
		stores = file.NewStoreFactory(settings)
	}
	acceptor, err := quickfix.NewAcceptor(&exchange{}, stores, settings, quickfix.NewNullLogFactory())
	if err != nil {
		return err
	}
	if err := acceptor.Start(); err != nil {
		return err
	}
	fmt.Println("ready")
	select {}
}
