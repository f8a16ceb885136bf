"use strict";
// A page with its content inside draws it.
View.unpack(document.getElementById("data").textContent).then(content => { View.app = View.start(content); });
