from logbus_delete_policy import SizeWithPromise

size_with_promise = SizeWithPromise()
