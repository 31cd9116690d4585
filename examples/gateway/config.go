package main

import (
	"errors"
	"os"
	"reflect"
	"time"

	"github.com/expediterhq/expediter"
)

// config is the configuration file. config.example.yaml explains each field.
type config struct {
	Listen    string         `yaml:"listen"`
	Admin     string         `yaml:"admin"`
	TLS       tlsConfig      `yaml:"tls"`
	Grace     time.Duration  `yaml:"grace"`
	Zone      string         `yaml:"zone"`
	Pools     []poolConfig   `yaml:"pools"`
	Models    []modelConfig  `yaml:"models"`
	Tenants   []tenantConfig `yaml:"tenants"`
	Redis     redisConfig    `yaml:"redis"`
	Usage     usageConfig    `yaml:"usage"`
	Limits    limitsConfig   `yaml:"limits"`
	Timeouts  timeoutsConfig `yaml:"timeouts"`
	Retry     retryConfig    `yaml:"retry"`
	Scrape    time.Duration  `yaml:"scrape"`
	PepperEnv string         `yaml:"pepper_env"`
}

// tlsConfig is the public listener's side of TLS.
type tlsConfig struct {
	Cert       string `yaml:"cert"`
	Key        string `yaml:"key"`
	ClientCA   string `yaml:"client_ca"`
	MinVersion string `yaml:"min_version"`
}

// upstreamTLS is the gateway's side of TLS to a pool's replicas.
type upstreamTLS struct {
	CA         string `yaml:"ca"`
	Cert       string `yaml:"cert"`
	Key        string `yaml:"key"`
	ServerName string `yaml:"server_name"`
	MinVersion string `yaml:"min_version"`
}

type poolConfig struct {
	Name             string          `yaml:"name"`
	Served           string          `yaml:"served"`
	Replicas         []replicaConfig `yaml:"replicas"`
	DNS              dnsConfig       `yaml:"dns"`
	Tokenizer        string          `yaml:"tokenizer"`
	APIKeyEnv        string          `yaml:"api_key_env"`
	TLS              upstreamTLS     `yaml:"tls"`
	Networks         []string        `yaml:"networks"`
	MaxModelLen      int             `yaml:"max_model_len"`
	DefaultMaxTokens int             `yaml:"default_max_tokens"`
	MaxTokens        int             `yaml:"max_tokens"`
	MaxWait          time.Duration   `yaml:"max_wait"`
	Headroom         float64         `yaml:"headroom"`
	KVTokens         int             `yaml:"kv_tokens"`
	SLO              sloConfig       `yaml:"slo"`
}

// dnsConfig is the name whose addresses are replicas too.
type dnsConfig struct {
	Host     string        `yaml:"host"`
	Port     int           `yaml:"port"`
	Scheme   string        `yaml:"scheme"`
	Interval time.Duration `yaml:"interval"`
	Timeout  time.Duration `yaml:"timeout"`
	Misses   int           `yaml:"misses"`
	Zone     string        `yaml:"zone"`
}

type replicaConfig struct {
	URL    string  `yaml:"url"`
	Name   string  `yaml:"name"`
	Zone   string  `yaml:"zone"`
	Weight float64 `yaml:"weight"`
	Drain  bool    `yaml:"drain"`
}

func (r *replicaConfig) fromText(s string) { r.URL = s }

type modelConfig struct {
	Name    string `yaml:"name"`
	Pool    string `yaml:"pool"`
	Adapter string `yaml:"adapter"`
}

type tenantConfig struct {
	ID               string      `yaml:"id"`
	Keys             []keyConfig `yaml:"keys"`
	Tier             int         `yaml:"tier"`
	Weight           float64     `yaml:"weight"`
	Models           []string    `yaml:"models"`
	TokensPerMinute  int64       `yaml:"tokens_per_minute"`
	TokensPerDay     int64       `yaml:"tokens_per_day"`
	Concurrency      int         `yaml:"concurrency"`
	Price            priceConfig `yaml:"price"`
	SLO              sloConfig   `yaml:"slo"`
	MaxTokens        int         `yaml:"max_tokens"`
	DefaultMaxTokens int         `yaml:"default_max_tokens"`
	IsolatePrefix    bool        `yaml:"isolate_prefix"`
	AllowFields      []string    `yaml:"allow_fields"`
	Disabled         bool        `yaml:"disabled"`
}

type keyConfig struct {
	Digest  string    `yaml:"digest"`
	Name    string    `yaml:"name"`
	Expires time.Time `yaml:"expires"`
}

func (k *keyConfig) fromText(s string) { k.Digest = s }

type priceConfig struct {
	Input  int64 `yaml:"input"`
	Output int64 `yaml:"output"`
}

type sloConfig struct {
	TTFT time.Duration `yaml:"ttft"`
	TPOT time.Duration `yaml:"tpot"`
}

type redisConfig struct {
	Addresses   []string      `yaml:"addresses"`
	Master      string        `yaml:"sentinel_master"`
	Username    string        `yaml:"username"`
	PasswordEnv string        `yaml:"password_env"`
	DB          int           `yaml:"db"`
	TLS         bool          `yaml:"tls"`
	CA          string        `yaml:"ca"`
	Cert        string        `yaml:"cert"`
	Key         string        `yaml:"key"`
	ServerName  string        `yaml:"server_name"`
	Prefix      string        `yaml:"prefix"`
	Policy      string        `yaml:"policy"`
	Share       float64       `yaml:"share"`
	Timeout     time.Duration `yaml:"timeout"`
	Patience    time.Duration `yaml:"patience"`
}

type usageConfig struct {
	File    string `yaml:"file"`
	MaxSize int64  `yaml:"max_size"`
	Stream  string `yaml:"redis_stream"`
}

type limitsConfig struct {
	Body    int64 `yaml:"body"`
	Bodies  int64 `yaml:"bodies"`
	Choices int   `yaml:"choices"`
	Prompts int   `yaml:"prompts"`
}

func (l limitsConfig) library() expediter.Limits {
	return expediter.Limits{Body: l.Body, Bodies: l.Bodies, Choices: l.Choices, Prompts: l.Prompts}
}

type timeoutsConfig struct {
	Body       time.Duration `yaml:"body"`
	FirstToken time.Duration `yaml:"first_token"`
	Silence    time.Duration `yaml:"silence"`
	Answer     time.Duration `yaml:"answer"`
	Write      time.Duration `yaml:"write"`
}

func (t timeoutsConfig) library() expediter.Timeouts {
	return expediter.Timeouts{Body: t.Body, FirstToken: t.FirstToken, Silence: t.Silence, Answer: t.Answer, Write: t.Write}
}

type retryConfig struct {
	Attempts int     `yaml:"attempts"`
	Ratio    float64 `yaml:"ratio"`
	Burst    int     `yaml:"burst"`
	Kills    int     `yaml:"kills"`
}

func (r retryConfig) library() expediter.Retry {
	return expediter.Retry{Attempts: r.Attempts, Ratio: r.Ratio, Burst: r.Burst, Kills: r.Kills}
}

// readConfig reads and decodes a file, and fills in the defaults. What is wrong
// with single values is in the mistakes; the error is for a file that cannot be
// read at all.
func readConfig(path string) (*config, *mistakes, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	m := newMistakes(path)
	root, err := parseYAML(data)
	if err != nil {
		var at *lineError
		if errors.As(err, &at) {
			m.list = append(m.list, mistake{line: at.line, want: at.text})
			err = m.err()
		}
		return nil, nil, err
	}
	c := new(config)
	d := decoder{m}
	d.value("", root, reflect.ValueOf(c).Elem())
	c.setDefaults()
	return c, m, nil
}
