package tenant_test

import (
	"math"
	"strings"
	"testing"

	"github.com/expediterhq/expediter/quota"
	"github.com/expediterhq/expediter/tenant"
)

func TestMay(t *testing.T) {
	tests := []struct {
		models []string
		model  string
		want   bool
	}{
		{nil, "llama", true},
		{[]string{"llama", "llama-sql"}, "llama-sql", true},
		{[]string{"llama"}, "Llama", false},
		{[]string{"llama"}, "", false},
	}
	for _, tt := range tests {
		if got := (&tenant.Tenant{Models: tt.models}).May(tt.model); got != tt.want {
			t.Errorf("May(%q) with %q = %v, want %v", tt.model, tt.models, got, tt.want)
		}
	}
}

func TestCost(t *testing.T) {
	tests := []struct {
		price         tenant.Price
		input, output int
		want          int64
	}{
		{tenant.Price{}, 10, 5, 15},
		{tenant.Price{Input: 2, Output: 3}, 10, 5, 35},
		{tenant.Price{Output: 4}, 10, 5, 30},
		{tenant.Price{}, -10, 5, 5},
		{tenant.Price{Input: math.MaxInt64 / 1000}, 1_000_000, 0, math.MaxInt64},
		{tenant.Price{Input: math.MaxInt64}, 1, 1, math.MaxInt64},
		{tenant.Price{Input: math.MaxInt64}, 1, 0, math.MaxInt64},
		{tenant.Price{}, math.MaxInt, 0, math.MaxInt},
	}
	for _, tt := range tests {
		if got := tt.price.Cost(tt.input, tt.output); got != tt.want {
			t.Errorf("%+v.Cost(%d, %d) = %d, want %d", tt.price, tt.input, tt.output, got, tt.want)
		}
	}
}

func TestValidate(t *testing.T) {
	full := tenant.Tenant{
		ID: "acme/team-1", Tier: 2, Weight: 0.5, Models: []string{"m"}, MaxTokens: 100, DefaultMaxTokens: 100,
		Limit: quota.Limit{Concurrency: 3, Windows: []quota.Window{{Name: "minute", Rate: 10, Burst: 600}, {Name: "day"}}},
	}
	for _, good := range []tenant.Tenant{{ID: "a"}, {ID: strings.Repeat("x", 128)}, full} {
		if err := good.Validate(); err != nil {
			t.Errorf("Validate(%+v) = %v", good, err)
		}
	}
	tests := []struct {
		field string
		t     tenant.Tenant
	}{
		{"ID", tenant.Tenant{}},
		{"ID", tenant.Tenant{ID: "a b"}},
		{"ID", tenant.Tenant{ID: "é"}},
		{"ID", tenant.Tenant{ID: "a{b}"}},
		{"ID", tenant.Tenant{ID: strings.Repeat("x", 129)}},
		{"Tier", tenant.Tenant{ID: "a", Tier: -1}},
		{"Weight", tenant.Tenant{ID: "a", Weight: math.NaN()}},
		{"Weight", tenant.Tenant{ID: "a", Weight: math.Inf(1)}},
		{"Price.Input", tenant.Tenant{ID: "a", Price: tenant.Price{Input: -1}}},
		{"Price.Output", tenant.Tenant{ID: "a", Price: tenant.Price{Output: 1_000_001}}},
		{"TTFT", tenant.Tenant{ID: "a", TTFT: -1}},
		{"TPOT", tenant.Tenant{ID: "a", TPOT: -1}},
		{"MaxTokens", tenant.Tenant{ID: "a", MaxTokens: -1}},
		{"DefaultMaxTokens", tenant.Tenant{ID: "a", MaxTokens: 5, DefaultMaxTokens: 6}},
		{"Models", tenant.Tenant{ID: "a", Models: []string{"m", ""}}},
		{"AllowFields", tenant.Tenant{ID: "a", AllowFields: []string{""}}},
		{"Limit.Concurrency", tenant.Tenant{ID: "a", Limit: quota.Limit{Concurrency: -1}}},
		{"Limit.Windows[0].Name", tenant.Tenant{ID: "a", Limit: quota.Limit{Windows: []quota.Window{{}}}}},
		{"Limit.Windows[1].Name", tenant.Tenant{ID: "a", Limit: quota.Limit{Windows: []quota.Window{{Name: "m"}, {Name: "m"}}}}},
		{"Limit.Windows[0].Rate", tenant.Tenant{ID: "a", Limit: quota.Limit{Windows: []quota.Window{{Name: "m", Rate: math.NaN()}}}}},
		{"Limit.Windows[0].Burst", tenant.Tenant{ID: "a", Limit: quota.Limit{Windows: []quota.Window{{Name: "m", Burst: -1}}}}},
		{"Limit.Windows[0].Burst", tenant.Tenant{ID: "a", Limit: quota.Limit{Windows: []quota.Window{{Name: "m", Burst: 1<<53 + 1}}}}},
		{"Limit.Windows[0].Name", tenant.Tenant{ID: "a", Limit: quota.Limit{Windows: []quota.Window{{Name: strings.Repeat("m", 129)}}}}},
	}
	for _, tt := range tests {
		err := tt.t.Validate()
		if err == nil || !strings.HasPrefix(err.Error(), "tenant: "+tt.field+": ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("Validate(%+v) = %v, want one error about %s", tt.t, err, tt.field)
		}
	}
	many := tenant.Tenant{ID: "a"}
	for i := range quota.MaxWindows + 1 {
		many.Limit.Windows = append(many.Limit.Windows, quota.Window{Name: string(rune('a' + i))})
	}
	if err := many.Validate(); err == nil || !strings.HasPrefix(err.Error(), "tenant: Limit.Windows: has 17") {
		t.Errorf("Validate of 17 windows = %v", err)
	}
	all := tenant.Tenant{Tier: -1, Weight: -1}
	if err := all.Validate(); strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("Validate = %v, want three errors", err)
	}
}
