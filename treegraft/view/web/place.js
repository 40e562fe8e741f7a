// A place in a run, read from an address: whole numbers, or nothing.

function placeOf(parameters) {
  const whole = (name) => (/^\d{1,9}$/.test(parameters.get(name) || "") ? Number(parameters.get(name)) : undefined);
  const node = parameters.get("node") === "bonus" ? "bonus" : whole("node");
  return { round: whole("round"), event: whole("event"), node };
}
