package fence_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"

	"github.com/setpoint-go/setpoint/leaderelect/fence"
)

// A service accepts requests of the newest leader only. The leader sends its term along, for example in a header.
func ExampleGuard() {
	var guard fence.Guard
	handler := func(w http.ResponseWriter, r *http.Request) {
		term, err := strconv.ParseUint(r.Header.Get("Leader-Term"), 10, 64)
		if err != nil {
			http.Error(w, "no term", http.StatusBadRequest)
			return
		}
		err = guard.Do(r.Context(), term, func(context.Context) error {
			_, err := fmt.Fprintln(w, "done in term", term)
			return err
		})
		if err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
		}
	}
	for _, term := range []string{"6", "7", "6"} {
		r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
		r.Header.Set("Leader-Term", term)
		w := httptest.NewRecorder()
		handler(w, r)
		fmt.Print(w.Code, " ", w.Body)
	}
	// Output:
	// 200 done in term 6
	// 200 done in term 7
	// 409 fence: term 6 after term 7: term is stale
}

// A leader that reads bars earlier leaders, so they cannot change the value afterward.
func ExampleRegister() {
	var target fence.Register[int]
	fmt.Println(target.Write(1, 10))
	n, err := target.Read(2) // the next leader
	fmt.Println(n, err)
	fmt.Println(target.Write(1, 99)) // the one before was paused
	fmt.Println(target.Write(2, n+1))
	value, term := target.Peek()
	fmt.Println(value, "of term", term)
	// Output:
	// <nil>
	// 10 <nil>
	// fence: term 1 after term 2: term is stale
	// <nil>
	// 11 of term 2
}
