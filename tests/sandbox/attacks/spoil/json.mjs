JSON.stringify = JSON.parse = JSON.rawJSON = evil;
