package rdb

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// How values are written.
const (
	isString       = 0
	isSet          = 2
	isHash         = 4
	isZSet         = 5
	isIntSet       = 11
	isHashListpack = 16
	isZSetListpack = 17
	isQuicklist    = 18
	isStream2      = 19
	isSetListpack  = 20
	isStream3      = 21
)

func (d *decoder) value(op byte, v *Value) (err error) {
	switch op {
	case isString:
		v.Type = String
		v.Items, err = d.texts(1)
	case isSet:
		v.Type = Set
		v.Items, err = d.list(1)
	case isHash:
		v.Type = Hash
		v.Items, err = d.list(2)
	case isZSet:
		v.Type = ZSet
		v.Items, err = d.scored()
	case isIntSet:
		v.Type = Set
		v.Items, err = d.intset()
	case isHashListpack:
		v.Type = Hash
		v.Items, err = d.listpack(2)
	case isZSetListpack:
		v.Type = ZSet
		v.Items, err = d.listpack(2)
	case isSetListpack:
		v.Type = Set
		v.Items, err = d.listpack(1)
	case isQuicklist:
		v.Type = List
		v.Items, err = d.quicklist()
	case isStream2, isStream3:
		v.Type = Log
		v.Stream, err = d.stream(op == isStream3)
	default:
		return fmt.Errorf("type %d is none that Tollgate uses", op)
	}
	return err
}

// texts are so many strings.
func (d *decoder) texts(n uint64) (list []string, err error) {
	list = make([]string, 0, min(n, 4096))
	for range n {
		text, err := d.text()
		if err != nil {
			return nil, err
		}
		list = append(list, text)
	}
	return list, nil
}

// list has a number of entries, of so many strings each.
func (d *decoder) list(each uint64) ([]string, error) {
	n, err := d.length()
	if err != nil {
		return nil, err
	}
	if n > math.MaxInt32 {
		return nil, fmt.Errorf("%d entries", n)
	}
	return d.texts(n * each)
}

// scored has members with scores.
func (d *decoder) scored() (list []string, err error) {
	n, err := d.length()
	if err != nil {
		return nil, err
	}
	for range n {
		member, err := d.text()
		if err != nil {
			return nil, err
		}
		b, err := d.bytes(8)
		if err != nil {
			return nil, err
		}
		score := math.Float64frombits(binary.LittleEndian.Uint64(b))
		list = append(list, member, strconv.FormatFloat(score, 'g', -1, 64))
	}
	return list, nil
}

// intset has numbers of one size.
func (d *decoder) intset() (list []string, err error) {
	b, err := d.blob()
	if err != nil {
		return nil, err
	}
	const head = 8
	if len(b) < head {
		return nil, errors.New("a set of numbers is too short")
	}
	size, n := int(binary.LittleEndian.Uint32(b)), int(binary.LittleEndian.Uint32(b[4:]))
	if (size != 2 && size != 4 && size != 8) || len(b) != head+n*size {
		return nil, errors.New("a set of numbers has another length")
	}
	for number := range slices.Chunk(b[head:], size) {
		list = append(list, strconv.FormatInt(little(number), 10))
	}
	return list, nil
}

// quicklist has nodes of one element, or of several.
func (d *decoder) quicklist() (list []string, err error) {
	const plain, packed = 1, 2
	n, err := d.length()
	if err != nil {
		return nil, err
	}
	for range n {
		container, err := d.length()
		if err != nil {
			return nil, err
		}
		var some []string
		switch container {
		case plain:
			some, err = d.texts(1)
		case packed:
			some, err = d.listpack(1)
		default:
			err = fmt.Errorf("%d is no node of a list", container)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, some...)
	}
	return list, nil
}
