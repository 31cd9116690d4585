package trace_test

import (
	"fmt"
	"strings"

	"github.com/expediterhq/expediter/sim/trace"
)

func ExampleRead() {
	file := `t_s,tenant,input_tokens,output_tokens
0.000,acme,197,74
0.250,acme,-3,12
0.900,zenith,2560,150
`
	_, err := trace.Read(strings.NewReader(file), "day1.csv", trace.Options{})
	fmt.Println(err)
	r, err := trace.Read(strings.NewReader(file), "day1.csv", trace.Options{Lenient: true})
	fmt.Println(len(r.Requests), r.Bad, err)
	// Output:
	// trace: day1.csv:3: prompt is -3 tokens, want 1 to 8388608
	// 2 1 <nil>
}
