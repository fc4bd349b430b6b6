package envelope

// DecodePlain is Decode without encoding/json.
var DecodePlain = decodePlain
