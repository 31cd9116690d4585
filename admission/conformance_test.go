package admission_test

import (
	"testing"

	"github.com/expediterhq/expediter/admission"
	"github.com/expediterhq/expediter/admission/admissiontest"
)

func TestControllerConforms(t *testing.T) {
	for _, tt := range []struct {
		name string
		cfg  admission.Config
	}{
		{"defaults", admission.Config{}},
		{"bounded", admission.Config{MaxWaiting: 70}},
		{"backfill", admission.Config{Backfill: 0.5}},
		{"no floor, nothing kept", admission.Config{TierFloor: -1, ReserveAfter: -1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			admissiontest.Run(t, func(t *testing.T) admissiontest.Subject {
				c, err := admission.NewController(tt.cfg)
				if err != nil {
					t.Fatal(err)
				}
				return admissiontest.Subject{Admitter: c, Close: c.Close, MaxWaiting: tt.cfg.MaxWaiting}
			})
		})
	}
}
