package report

import (
	"encoding/json"
	"math"
	"strconv"
)

// number is a float64 that is null in JSON when it is not finite.
type number float64

func (n number) MarshalJSON() ([]byte, error) {
	if !finite(float64(n)) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, float64(n), 'g', -1, 64), nil
}

func (n *number) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*n = number(math.NaN())
		return nil
	}
	return json.Unmarshal(data, (*float64)(n))
}

func numbers(values []float64) []number {
	if values == nil {
		return nil
	}
	ns := make([]number, len(values))
	for i, v := range values {
		ns[i] = number(v)
	}
	return ns
}

func floats(ns []number) []float64 {
	if ns == nil {
		return nil
	}
	values := make([]float64, len(ns))
	for i, n := range ns {
		values[i] = float64(n)
	}
	return values
}
