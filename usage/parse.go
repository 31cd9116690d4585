package usage

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/expediterhq/expediter"
)

// wire is the JSON form, for reading.
type wire struct {
	ID          string              `json:"id"`
	Time        time.Time           `json:"time"`
	Endpoint    string              `json:"endpoint"`
	Stream      bool                `json:"stream"`
	Tenant      string              `json:"tenant"`
	Tier        int                 `json:"tier"`
	Model       string              `json:"model"`
	Served      string              `json:"served"`
	Pool        string              `json:"pool"`
	Adapter     string              `json:"adapter"`
	Replica     string              `json:"replica"`
	Generation  uint64              `json:"generation"`
	Attempts    int                 `json:"attempts"`
	Input       int                 `json:"input_tokens"`
	Cached      int                 `json:"cached_tokens"`
	Predicted   int                 `json:"predicted_cached_tokens"`
	Output      int                 `json:"output_tokens"`
	Estimated   bool                `json:"estimated"`
	Approximate bool                `json:"approximate"`
	Reserved    int64               `json:"reserved"`
	Charged     int64               `json:"charged"`
	QueueWait   millis              `json:"queue_wait_ms"`
	TTFT        millis              `json:"ttft_ms"`
	TPOT        millis              `json:"tpot_ms"`
	Total       millis              `json:"total_ms"`
	Objective   expediter.Objective `json:"objective"`
	Status      expediter.Status    `json:"status"`
	HTTPStatus  int                 `json:"http_status"`
	Finish      string              `json:"finish_reason"`
	EndedBy     expediter.Party     `json:"ended_by"`
	Error       string              `json:"error"`
}

// millis is a time in milliseconds. A float64 holds up to 100 days to the
// nanosecond.
type millis float64

func (m millis) duration() time.Duration {
	ns := math.Round(float64(m) * 1e6)
	switch {
	case ns >= math.MaxInt64:
		return math.MaxInt64
	case ns <= math.MinInt64:
		return math.MinInt64
	}
	return time.Duration(ns)
}

// Parse reads the JSON form of one Record. Unknown fields are ignored, so
// that records of later versions can be read.
func Parse(line []byte) (expediter.Record, error) {
	var w wire
	if err := json.Unmarshal(line, &w); err != nil {
		return expediter.Record{}, fmt.Errorf("usage: record: %w", err)
	}
	if w.ID == "" {
		return expediter.Record{}, errors.New("usage: record: id is missing")
	}
	return expediter.Record{
		ID: w.ID, Time: w.Time, Endpoint: w.Endpoint, Stream: w.Stream,
		Tenant: w.Tenant, Tier: w.Tier, Model: w.Model, Served: w.Served, Pool: w.Pool, Adapter: w.Adapter,
		Replica: w.Replica, Generation: w.Generation, Attempts: w.Attempts,
		Input: w.Input, Cached: w.Cached, Predicted: w.Predicted, Output: w.Output,
		Estimated: w.Estimated, Approximate: w.Approximate, Reserved: w.Reserved, Charged: w.Charged,
		QueueWait: w.QueueWait.duration(), TTFT: w.TTFT.duration(), TPOT: w.TPOT.duration(), Total: w.Total.duration(),
		Objective: w.Objective, Status: w.Status, HTTPStatus: w.HTTPStatus, FinishReason: w.Finish, EndedBy: w.EndedBy, Error: w.Error,
	}, nil
}
