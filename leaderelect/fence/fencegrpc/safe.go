package fencegrpc

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// Safe reports whether a method only reads: whether its .proto file says "option idempotency_level = NO_SIDE_EFFECTS", and the generated package is
// part of the program. fullMethod is the name in gRPC: "/package.service/method".
func Safe(fullMethod string) bool {
	name := protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(fullMethod, "/"), "/", "."))
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	if err != nil {
		return false
	}
	method, ok := d.(protoreflect.MethodDescriptor)
	if !ok {
		return false
	}
	options, ok := method.Options().(*descriptorpb.MethodOptions)
	return ok && options.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS
}

// isSafe asks the function of a configuration, or Safe.
func isSafe(ask func(string) bool, fullMethod string) bool {
	if ask == nil {
		return Safe(fullMethod)
	}
	return ask(fullMethod)
}
