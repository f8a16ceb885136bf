// Opens a model with Netron's own reader, without its window, and prints what it shows as JSON.
//
//     node netron_driver.mjs <folder of the netron package> <model> [--data-entry]
//
// Netron's code is loaded from the folder as it is installed.  --data-entry lets its reader follow the two
// facts of format 4.1 that Netron 9.3 does not know: data lies in the entry model.params.bin, and scalars
// are 64 bits wide.

import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { pathToFileURL } from 'node:url';

const FEW = 64;
const [folder, file, flag] = process.argv.slice(2);
const load = (name) => import(pathToFileURL(path.join(folder, `${name}.js`)).href);
const { FileStream } = await load('node');
const { Tensor } = await load('base');
const { Archive } = await load('zip');
const { ModelFactoryService } = await load('view');

const open = () => new FileStream(file, 0, fs.statSync(file).size, fs.statSync(file).mtimeMs);

// What Netron's desktop and browser hosts offer to a reader, without dialogs.
class Host {
    identifier = path.basename(file);
    stream = open();
    entries = new Map();
    errors = [];

    async require(id) {
        const module = await load(id);
        if (id === './dlc-schema' && flag === '--data-entry') {
            followDataEntry(module.dlc.v4);
        }
        return module;
    }

    async asset(name) {
        return fs.readFileSync(path.join(folder, name), 'utf-8');
    }

    async fetch(name) {
        throw new Error(`The file '${name}' is not asked for: the model is one file.`);
    }

    error(error) {
        this.errors.push(String(error));
    }
}

function followDataEntry(schema) {
    const entry = Archive.open(open(), 'zip').entries.get('model.params.bin');
    const data = entry ? entry.peek() : new Uint8Array(0);
    const extent = {
        decode: (reader, position) => {
            const start = Number(reader.int64_(position, 4, 0n));
            return data.slice(start, start + Number(reader.int64_(position, 6, 0n)));
        }
    };
    const { TensorData, Value } = schema;
    const elements = TensorData.decode;
    TensorData.decode = (reader, position) => {
        const found = elements(reader, position);
        found.bytes = reader.table(position, 10, extent) ?? found.bytes;
        return found;
    };
    const scalar = Value.decode;
    Value.decode = (reader, position) => {
        const found = scalar(reader, position);
        found.int32_value = Number(reader.int64_(position, 6, 0n));
        found.float32_value = reader.float64_(position, 8, 0);
        return found;
    };
}

// The wrapper is the one that Netron's sidebar reads elements through.
function elements(tensor) {
    const view = new Tensor(tensor);
    // Of format 3 it has numbers instead of bytes.
    const listed = { uint8: Uint8Array, float32: Float32Array }[tensor.type.dataType];
    const data = view.data ?? new Uint8Array(listed.from([view.value].flat(Infinity)).buffer);
    const shown = { ...type(tensor.type), nbytes: data.length };
    shown.sha256 = createHash('sha256').update(data).digest('hex');
    if (!view.empty && data.length <= FEW) {
        shown.values = [view.value].flat(Infinity);
    }
    return shown;
}

function type(found) {
    return { dtype: found.dataType, shape: Array.from(found.shape.dimensions, Number) };
}

function graph(found) {
    const tensors = {};
    const names = (list) => list.flatMap((argument) => argument.value).map((value) => {
        tensors[value.name] ??= {
            ...(value.type ? type(value.type) : {}),
            data: value.initializer ? elements(value.initializer) : null
        };
        return value.name;
    });
    const attributes = (list) => Object.fromEntries(list.map((attribute) =>
        [attribute.name, attribute.type === 'tensor' ? elements(attribute.value) : attribute.value]));
    // Weights of format 3 have no names in the graph, just in their layer.
    const weights = (list) => list.filter((argument) => argument.value.some((value) => value.name === ''));
    const others = (list) => list.filter((argument) => argument.value.every((value) => value.name !== ''));
    const nodes = found.nodes.map((node) => ({
        name: node.name,
        type: node.type.name,
        weights: Object.fromEntries(weights(node.inputs).map((argument) =>
            [argument.name, elements(argument.value[0].initializer)])),
        inputs: names(others(node.inputs)),
        outputs: names(node.outputs),
        attributes: attributes(node.attributes)
    }));
    return { name: found.name, nodes, tensors };
}

// JSON has neither wide integers nor infinities.
const plain = (key, value) => typeof value === 'bigint' || (typeof value === 'number' && !Number.isFinite(value))
    ? String(value) : value;

const host = new Host();
const model = await new ModelFactoryService(host).open(host);
const shown = { format: model.format, errors: host.errors, graphs: model.modules.map(graph) };
fs.writeSync(1, JSON.stringify(shown, plain));
