package main

import "reflect"

// waiting returns the fields that are not as they were at the start, and that
// only a restart takes up.
func waiting(began, now *config) []string {
	var fields []string
	for _, f := range []struct {
		name       string
		began, now any
	}{
		{"listen", began.Listen, now.Listen},
		{"admin", began.Admin, now.Admin},
		{"tls", began.TLS.Cert != "", now.TLS.Cert != ""}, // whether, not which
		{"tls.min_version", began.TLS.MinVersion, now.TLS.MinVersion},
		{"grace", began.Grace, now.Grace},
		{"redis", began.Redis, now.Redis},
		{"usage", began.Usage, now.Usage},
		{"pepper_env", began.PepperEnv, now.PepperEnv},
		{"limits.bodies", began.Limits.Bodies, now.Limits.Bodies},
		{"retry.ratio", began.Retry.Ratio, now.Retry.Ratio},
		{"retry.burst", began.Retry.Burst, now.Retry.Burst},
	} {
		if !reflect.DeepEqual(f.began, f.now) {
			fields = append(fields, f.name)
		}
	}
	return fields
}
