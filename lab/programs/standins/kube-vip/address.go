package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"net"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// address is the virtual IP on one interface.
type address struct {
	mutex sync.Mutex
	held  bool
	ip    net.IP
	addr  *netlink.Addr
	link  netlink.Link
}

// newAddress finds the interface: the named one, or the one of the default route.
func newAddress(text, prefix, name string) (*address, error) {
	addr, err := netlink.ParseAddr(text + "/" + prefix)
	if err != nil || addr.IP.To4() == nil {
		return nil, fmt.Errorf("address %q with vip_subnet %q is no IPv4 address", text, prefix)
	}
	link, err := interfaceOf(name)
	if err != nil {
		return nil, err
	}
	return &address{ip: addr.IP.To4(), addr: addr, link: link}, nil
}

func interfaceOf(name string) (netlink.Link, error) {
	if name != "" {
		return netlink.LinkByName(name)
	}
	routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		return nil, err
	}
	for _, route := range routes {
		if route.Dst == nil || route.Dst.IP.IsUnspecified() {
			return netlink.LinkByIndex(route.LinkIndex)
		}
	}
	return nil, errors.New("vip_interface is empty and there is no default route")
}

// hold keeps the address and announces it until the lease is gone. The ticker comes first, as in the real program:
// neighbours hear of a take-over only after one period, and a lost address comes back by it.
func (a *address) hold(leading context.Context, rate time.Duration) {
	a.mutex.Lock()
	a.held = true
	a.mutex.Unlock()
	log.Printf("leader now: taking %s on %s", a.ip, a.link.Attrs().Name)
	a.put()
	ticker := time.NewTicker(rate)
	defer ticker.Stop()
	for {
		select {
		case <-leading.Done():
			return
		case <-ticker.C:
			a.put()
			if err := a.announce(); err != nil {
				log.Printf("WARN gratuitous ARP: %v", err)
			}
		}
	}
}

// put adds the address while it is held; a tick after the loss must not bring it back.
func (a *address) put() {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if !a.held {
		return
	}
	if err := netlink.AddrReplace(a.link, a.addr); err != nil {
		log.Printf("could not add ip to device %q: %v", a.link.Attrs().Name, err)
	}
}

func (a *address) remove(why string) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.held = false
	if err := netlink.AddrDel(a.link, a.addr); err == nil {
		log.Printf("removed %s: %s", a.ip, why)
	} else if !errors.Is(err, unix.EADDRNOTAVAIL) {
		log.Printf("could not remove %s: %v", a.ip, err)
	}
}

// announce sends one gratuitous ARP reply to everybody.
func (a *address) announce() error {
	const ethernetARP = 0x0806
	bigEndian := func(v uint16) uint16 { return v<<8 | v>>8 }
	socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM, int(bigEndian(ethernetARP)))
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	mac := a.link.Attrs().HardwareAddr
	if len(mac) != 6 {
		return fmt.Errorf("%s has no Ethernet address", a.link.Attrs().Name)
	}
	packet := make([]byte, 0, 28)
	packet = binary.BigEndian.AppendUint16(packet, 1)      // Ethernet
	packet = binary.BigEndian.AppendUint16(packet, 0x0800) // IPv4
	packet = append(packet, 6, 4)
	packet = binary.BigEndian.AppendUint16(packet, 2) // reply
	packet = append(packet, mac...)
	packet = append(packet, a.ip...)
	packet = append(packet, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)
	packet = append(packet, a.ip...)
	to := &unix.SockaddrLinklayer{
		Protocol: bigEndian(ethernetARP), Ifindex: a.link.Attrs().Index, Halen: 6,
		Addr: [8]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
	}
	return unix.Sendto(socket, packet, 0, to)
}
