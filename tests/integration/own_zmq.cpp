// A C++ program with a libzmq of its own, next to the one inside libphobosrt.a; exceptions and locales of its own C++ runtime have to work as well.
#include <iostream>
#include <locale>
#include <sstream>
#include <stdexcept>
#include <zmq.h>

extern "C" {
#include "runtime/program.h"
extern const PhbProgram phb_program;
}

static bool own_zmq_works() {
    void *context = zmq_ctx_new();
    void *bound = zmq_socket(context, ZMQ_PAIR), *connected = zmq_socket(context, ZMQ_PAIR);
    char text[3] = "";
    bool works = zmq_bind(bound, "inproc://own") == 0 && zmq_connect(connected, "inproc://own") == 0 && zmq_send(connected, "hi", 2, 0) == 2 &&
                 zmq_recv(bound, text, 2, 0) == 2 && std::string(text) == "hi";
    zmq_close(bound);
    zmq_close(connected);
    zmq_ctx_term(context);
    return works;
}

int main(int argc, char **argv) {
    std::stringstream stream;
    stream.imbue(std::locale::classic());
    stream << 1.5;
    try {
        throw std::runtime_error(stream.str());
    } catch (const std::exception &error) {
        if (own_zmq_works() && std::string(error.what()) == "1.5")
            std::cout << "own libzmq works" << std::endl;
    }
    return phb_main(&phb_program, argc, argv);
}
