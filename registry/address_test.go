package registry

import (
	"net/url"
	"testing"
)

func TestSameAddress(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"http://gpu-0:8000", "http://gpu-0:8000", true},
		{"http://gpu-0", "http://gpu-0:80", true},
		{"https://gpu-0", "https://gpu-0:443", true},
		{"http://gpu-0:8000", "http://gpu-1:8000", false},
		{"http://gpu-0:8000", "https://gpu-0:8000", false},
		{"http://gpu-0:8000/a", "http://gpu-0:8000/b", false},
		{"http://[2001:db8::1]:8000", "http://[2001:DB8:0:0::1]:8000", true},
		{"http://[::ffff:10.0.0.1]:8000", "http://10.0.0.1:8000", true},
		{"http://[fe80::1%25eth0]:8000", "http://[fe80::1%25eth1]:8000", false},
		{"http://10.0.0.1:8000", "http://gpu-0:8000", false},
	} {
		a, err := url.Parse(tt.a)
		if err != nil {
			t.Fatal(err)
		}
		b, err := url.Parse(tt.b)
		if err != nil {
			t.Fatal(err)
		}
		if got := sameAddress(a, b); got != tt.want || sameAddress(b, a) != tt.want {
			t.Errorf("sameAddress(%s, %s) = %t, want %t", tt.a, tt.b, got, tt.want)
		}
	}
}
