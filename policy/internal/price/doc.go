// Package price says what acts on tasks cost: how long until the room is there and what
// work is thrown away, alone and in sets, weighted by priorities. The comment of package
// policy states the model.
package price
