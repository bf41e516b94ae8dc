"""Rules: for each operator a function from a `Step` to the interval of each of its results.

Each module has a table `RULES` by operator:

    arithmetic, functions       what is computed element by element
    movement, places            elements that are moved; parts that are taken, joined or replaced
    reduction, normalization    sums, means and pools; normalizations and softmax
    written_out                 normalizations that exporters write as several nodes
    linear, convolution         products with weights
    quantization, recurrent, signal     quantized numbers; LSTM; images and Fourier transforms
    foreign                     operators of com.microsoft
"""
