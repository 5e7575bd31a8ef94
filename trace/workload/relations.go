package workload

import (
	"encoding/binary"
	"math"
)

// Relations is the part of a Sink that knows what tasks have in common beside jobs and files.
type Relations struct {
	Users     []string
	Resources []string
	// Needs are each as long as it has to be.
	Needs [][]float32
	// Stages may wait for any others.
	Stages []Stage

	gangs                   int32
	users, resources, needs map[string]int32
}

// number returns one more than the place of name in list, at the end if it is new.
func number[T any](known *map[string]int32, list *[]T, name string, value T) int32 {
	n, ok := (*known)[name]
	if !ok {
		if *known == nil {
			*known = map[string]int32{}
		}
		*list = append(*list, value)
		n = int32(len(*list))
		(*known)[name] = n
	}
	return n
}

// User returns the number of a user.
func (r *Relations) User(name string) int32 {
	if name == "" {
		return 0
	}
	return number(&r.users, &r.Users, name, name)
}

// Resource returns the place of a resource.
func (r *Relations) Resource(name string) int {
	return int(number(&r.resources, &r.Resources, name, name) - 1)
}

// Need returns the number of a need. It keeps no reference to amounts.
func (r *Relations) Need(amounts []float32) int32 {
	for len(amounts) > 0 && amounts[len(amounts)-1] == 0 {
		amounts = amounts[:len(amounts)-1]
	}
	if len(amounts) == 0 {
		return 0
	}
	key := make([]byte, 0, 4*len(amounts))
	for _, v := range amounts {
		key = binary.LittleEndian.AppendUint32(key, math.Float32bits(v))
	}
	if n, ok := r.needs[string(key)]; ok {
		return n
	}
	return number(&r.needs, &r.Needs, string(key), append([]float32(nil), amounts...))
}

// Stage returns the number of a new stage.
func (r *Relations) Stage() int32 {
	r.Stages = append(r.Stages, Stage{})
	return int32(len(r.Stages))
}

// After says that a stage waits for another.
func (r *Relations) After(stage, before int32) {
	s := &r.Stages[stage-1]
	s.After = append(s.After, before-1)
}

// Gang returns the number of a new gang.
func (r *Relations) Gang() int32 {
	r.gangs++
	return r.gangs
}
