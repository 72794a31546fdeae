// Ends a program when the test that started it is gone, so that none is left after an interrupted run.
process.stdin.on("end", () => process.exit(1));
process.stdin.on("error", () => process.exit(1));
process.stdin.resume();
process.stdin.unref?.();
